"""What an LLM judge is told beside the pages: models, prompts, prices, limits, and who pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from jobs.core.errors import UsageError
from jobs.core.settings import Judging, Settings
from jobs.judging.cost import FREE, Price, price_of
from jobs.judging.dialect import Dialect, known_dialect
from jobs.judging.endpoint import EndpointSettings, checked_url
from jobs.judging.labels import LabelStore
from jobs.judging.prompts import PromptSet, load_prompts
from jobs.judging.questions import Asker, AskSettings


@dataclass(frozen=True, kw_only=True)
class Sitting:
    """What a judge is told beside the pages. `run` names who pays; `labels` is the label store's file.

    `salt` names a purpose that wants answers of its own, such as judging a page a second time.
    """

    judging: Judging
    labels: Path
    run: str
    variants: tuple[str, ...]
    budget_usd: float | None
    retry_unscored: bool = False
    salt: str = ""
    say: Callable[[str], None] = lambda text: None

    @property
    def models(self) -> tuple[str, ...]:
        """The models named by `judging.model`, separated by commas. Raises UsageError where none is."""
        names = tuple(name.strip() for name in self.judging.model.split(",") if name.strip())
        if not names:
            raise UsageError(f"judge {self.judging.judge!r} needs a model: set judging.model or pass --model")
        return names

    def prompts(self) -> PromptSet:
        """The prompts of these settings, checked."""
        judging = self.judging
        return load_prompts(kind=judging.kind, folder=judging.prompts, item_fields=judging.item_fields)

    def askers(self, dialects: dict[str, Dialect]) -> list[Asker]:
        """One asker a model and sample."""
        prompts = self.prompts()
        return [
            Asker(self._ask_settings(prompts, dialects[model], model=model, sample=sample))
            for model in self.models
            for sample in range(self.judging.samples)
        ]

    def planned_askers(self, store: LabelStore) -> list[Asker]:
        """Askers as far as they are known without asking the endpoint anything."""
        known = {m: known_dialect(store, address=self.address, model=m) for m in self.models}
        return self.askers(known)

    def prices(self) -> dict[str, Price | None]:
        """Price by model; a local judge is free, a model that the table does not know has None."""
        judging = self.judging
        if judging.judge == "local":
            return dict.fromkeys(self.models, FREE)
        return {model: price_of(model, batch=judging.batch, table=judging.prices) for model in self.models}

    def check_budget(self) -> None:
        """UsageError where a budget is set that cannot be kept, since a model has no price.

        An endpoint on this machine or in a private network costs what its machine costs, so there it only says so.
        """
        checked_url(self.judging.base_url)
        unpriced = [model for model, price in self.prices().items() if price is None]
        if not unpriced or self.budget_usd is None:
            return
        names = ", ".join(map(repr, unpriced))
        if not is_private(self.judging.base_url):
            raise UsageError(
                f"the price of model {names} is not known, so judging.budget_usd = {self.budget_usd:g} cannot be kept:"
                " name a price table (judging.prices, --prices), or switch the budget off (judging.budget_usd ="
                ' "off", --budget-usd off)'
            )
        self.say(f"no price is known for {names} at {self.judging.base_url}: its calls are counted as free")

    def endpoint_settings(self) -> EndpointSettings:
        """How the endpoint is asked."""
        names = EndpointSettings.__dataclass_fields__
        return EndpointSettings(**{n: v for n, v in self.judging.model_dump().items() if n in names and n != "model"})

    @property
    def address(self) -> str:
        """What notes about the endpoint are kept under; a local server has another port every time."""
        return "local" if self.judging.judge == "local" else self.judging.base_url or "default"

    def pace_note(self) -> str:
        """Name under which the calls per second of a run are remembered, for plans."""
        return f"pace {self.address} {self.judging.model}"

    def _ask_settings(self, prompts: PromptSet, dialect: Dialect, *, model: str, sample: int) -> AskSettings:
        judging = self.judging
        return AskSettings(
            model=model,
            prompts=prompts,
            dialect=dialect,
            temperature=judging.temperature,
            max_output_tokens=judging.max_output_tokens,
            context_tokens=judging.context_tokens,
            sample=sample,
            seed=judging.seed + sample if judging.samples > 1 else None,
            salt=self.salt,
        )


def is_private(base_url: str) -> bool:
    """Whether an address lies on this machine or in a private network: such endpoints are one's own."""
    host = (urlsplit(base_url).hostname or "").lower()
    try:
        return ip_address(host).is_private
    except ValueError:
        own = ("localhost", ".localhost", ".local", ".internal", ".lan", ".home.arpa", ".svc", ".cluster.local")
        return bool(host) and ("." not in host or host.endswith(own))


def with_paths(settings: Settings) -> Judging:
    """The [judging] settings with their paths resolved against the folder of the settings file."""
    judging = settings.judging
    names = ("prompts", "prices", "model_path")
    return judging.model_copy(update={name: settings.path(getattr(judging, name)) for name in names})


def llm_variants(variants: Sequence[str]) -> tuple[str, ...]:
    """The variants that ask a judge; `evidence_only` asks none."""
    return tuple(variant for variant in variants if variant != "evidence_only")
