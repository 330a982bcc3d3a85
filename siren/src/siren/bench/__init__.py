"""The eleven benchmark programs, data for them, and the measurements of `siren bench`."""
