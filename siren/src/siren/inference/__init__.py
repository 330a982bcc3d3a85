"""The algorithms: SSI, DS and BP over one graph, and the population of particles."""
