"""Problems with right answers: read from a file, put together into one prompt, answered, and marked by a program."""
