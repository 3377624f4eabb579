"""Figures of a run, one row a statistic, and the track record of launches."""

from schemas.contract import Column, Table

METRICS = Table(
    name="metrics",
    meaning="one statistic of one run",
    partition=("run",),
    columns=(
        Column(name="run", type="string", key=True, meaning="run"),
        Column(name="set", type="string", key=True, meaning="set of pages"),
        Column(name="subset", type="string", key=True, meaning="all, flipped or equal"),
        Column(name="slice", type="string", key=True, meaning="slice, such as locale=de, or all"),
        Column(name="variant", type="string", key=True, meaning="variant, or a comparison such as qri-plain"),
        Column(name="statistic", type="string", key=True, meaning="what was computed"),
        Column(name="value", type="double", nullable=True, meaning="value, null where undefined"),
        Column(name="low", type="double", nullable=True, meaning="lower end of the 95% interval"),
        Column(name="high", type="double", nullable=True, meaning="upper end"),
        Column(name="n", type="bigint", minimum=0, meaning="pages or queries behind it"),
        Column(name="excluded", type="bigint", minimum=0, meaning="pages or queries left out"),
        Column(name="reason", type="string", nullable=True, meaning="why it is undefined or what was left out"),
    ),
)

LAUNCHES = Table(
    name="launches",
    meaning="one launch: its forecast, and its outcome once known",
    partition=("launch_id",),
    columns=(
        Column(name="launch_id", type="string", key=True, meaning="launch"),
        Column(name="start", type="date", meaning="first day of the launch"),
        Column(name="forecast", type="json", meaning="frozen forecast"),
        Column(name="manifest", type="json", meaning="what made it"),
        Column(name="outcome", type="json", nullable=True, meaning="online outcome summary"),
        Column(name="alignment", type="json", nullable=True, meaning="sign alignment with the outcome"),
    ),
)

TABLES = (METRICS, LAUNCHES)
