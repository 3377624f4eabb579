"""The one entry: `hindcast STEP …`, the same as `python -m jobs STEP …`. Each step's module is imported on use."""

import importlib
import sys

import click
import typer

STEPS: dict[str, tuple[str, str]] = {
    "simulate": ("jobs.simulate.job", "Write a simulated log with planted truth."),
    "impressions": ("jobs.impressions.job", "Raw logs to canonical impressions and daily counts."),
    "items": ("jobs.impressions.items", "Item catalogues."),
    "propensity": ("jobs.propensity.job", "Examination probability by rank."),
    "evidence": ("jobs.evidence.job", "Debiased Query-Relevance-Impressions rows."),
    "pages": ("jobs.pages.job", "Pages to judge and their truth."),
    "cards": ("jobs.cards.job", "Evidence cards of each page, and the leakage audit."),
    "judging": ("jobs.judging.job", "Grade pages, plain and grounded."),
    "skills": ("jobs.skills.job", "Query-rewriting skills of a corpus."),
    "reports": ("jobs.reports.job", "Figures, HTML and exports."),
    "publish": ("jobs.night", "Let consumers see a finished run."),
    "night": ("jobs.night", "All steps of a night, in one process."),
    "launch": ("jobs.launch", "Forecast before an A/B launch, and its outcome."),
    "status": ("jobs.status", "Nights, gaps, coverage and cost."),
    "doctor": ("jobs.doctor.job", "What is wrong with this machine or set-up."),
}


class LazySteps(click.Group):
    """A group whose sub-commands are imported when they are called, so that `hindcast --help` is quick."""

    def list_commands(self, _: click.Context) -> list[str]:
        """The steps in the order of the flow."""
        return list(STEPS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The step's command; an unknown name is click's usage error (exit code 2)."""
        if name not in STEPS:
            return None
        if name not in sys.argv:
            return click.Command(name, help=STEPS[name][1])
        module = importlib.import_module(STEPS[name][0])
        app = getattr(module, f"{name}_app", None) or module.app
        return typer.main.get_command(app)


@click.group(cls=LazySteps, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="hindcast")
def main() -> None:
    """Hindcast grades search result pages with what past users did.

    Start with `hindcast doctor`, then `hindcast simulate --help` or `hindcast impressions inspect FILE`.
    """


if __name__ == "__main__":
    main()
