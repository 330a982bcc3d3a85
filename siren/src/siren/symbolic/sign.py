"""What may be known of an unknown number: above 0, not below 0, below 0, or nothing."""

POSITIVE, NONNEGATIVE, NEGATIVE, ANY = "+", "0+", "-", "?"
