"""Makes the data of the examples: `python make_data.py`. Seeded, so it always makes the same files."""

from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "data"


def save(name: str, header: str, *columns: np.ndarray) -> None:
    rows = [
        ",".join("" if value != value else f"{value:.4g}" for value in row)
        for row in zip(*columns, strict=True)
    ]
    (FOLDER / name).write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")


def main() -> None:
    rng = np.random.default_rng(2025)
    hours = np.arange(48)
    temperature = 20 + np.cumsum(rng.normal(0, np.sqrt(0.1), 48))
    save("temperature.csv", "hour,reading", hours, rng.normal(temperature, 1))

    time = np.arange(60)
    position = 30 + np.cumsum(rng.normal(0, 1, 60))
    nonsense = rng.random(60) < 0.12
    save(
        "positions.csv",
        "t,reading",
        time,
        np.where(nonsense, rng.normal(0, 100, 60), rng.normal(position, 1)),
    )

    shaking = np.zeros(80, dtype=bool)
    shaking[25:40] = shaking[62:70] = True
    save("vibration.csv", "t,reading", np.arange(80), rng.normal(0, np.where(shaking, 3, 0.5)))

    cells = np.array([0, 1, 1, 0, 0, 0, 1, 0, 1, 1, 0])
    x, command, commands, seen = 0, 1, [], []
    for _ in range(120):
        command = -1 if x == 10 else 1 if x == 0 else command
        x = x if rng.random() < 0.1 else min(10, max(0, x + command))
        commands.append(command)
        seen.append(rng.random() < (0.9 if cells[x] else 0.1))
    save("corridor.csv", "t,command,seen", np.arange(120), np.array(commands), np.array(seen, dtype=int))

    velocity = np.array([0.8, 0.3]) + np.cumsum(rng.normal(0, np.sqrt(0.02), (50, 2)), axis=0)
    track = np.cumsum(velocity, axis=0) + np.cumsum(rng.normal(0, 0.1, (50, 2)), axis=0)
    east, north = rng.normal(track, 1.5).T
    save("boat.csv", "t,east,north", np.arange(50), east, north)

    marks = np.array([[4.0, 1.0], [1.0, 5.0], [-3.0, 2.0], [2.0, -3.0]])
    place, heading, rows = np.zeros(2), 0.0, []
    for t in range(60):
        turn, way, mark = 0.2, 0.5, t % 4
        heading += rng.normal(turn, np.sqrt(0.001))
        place = place + rng.normal(way, 0.1) * np.array([np.cos(heading), np.sin(heading)])
        turned = np.array([[np.cos(heading), np.sin(heading)], [-np.sin(heading), np.cos(heading)]])
        rows.append([turn, way, mark, *(turned @ (marks[mark] - place) + rng.normal(0, 0.2, 2))])
    save("landmarks.csv", "turn,way,mark,ahead,left", *np.array(rows).T)

    level = np.repeat([12.0, 9.5, 15.0, 11.0], [25, 30, 15, 30])
    reading = rng.normal(level, 0.8)
    reading[[7, 40, 41]] = np.nan  # the well was not read
    save("well.csv", "day,water level (m)", np.arange(100), reading)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    main()
