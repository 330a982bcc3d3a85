"""Quality and speed of answers: many models over the same prompts, judged, timed, and put side by side."""
