"""Who is told of a failed run: nobody, unless the environment of Airflow names an address.

HINDCAST_DAGS_WEBHOOK: an address that takes {"text": …} as JSON (Slack, Mattermost and the like).
HINDCAST_DAGS_EMAIL: addresses with commas, sent through the connection `smtp_default`. One notice a failed run, not one
a task.
"""

import json
import os
import urllib.request

from airflow.sdk import BaseNotifier

TIMEOUT_S = 30
TEXT = "Hindcast: {dag} {run} failed ({reason}){task}. Open the run for its log; the DAG's page says how to go on."


class WebhookNotifier(BaseNotifier):
    """Posts one JSON object with `text` to an address."""

    def __init__(self, *, address: str) -> None:
        super().__init__()
        self.address = address

    def notify(self, context) -> None:
        """Send; an error is logged by Airflow and changes no run."""
        body = json.dumps({"text": text_of(context)}).encode()
        request = urllib.request.Request(self.address, data=body, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            answer.read()


def text_of(context) -> str:
    """One sentence: which run, why, and the task that ended last where the scheduler names it."""
    ti = context.get("ti")
    task = f", last task {ti.task_id}" if ti else ""
    run = context.get("run_id") or getattr(ti, "run_id", "")
    return TEXT.format(dag=context["dag"].dag_id, run=run, reason=context.get("reason") or "unknown", task=task)


def notices() -> list[BaseNotifier]:
    """The notifiers that the environment asks for."""
    address, mail = os.environ.get("HINDCAST_DAGS_WEBHOOK"), os.environ.get("HINDCAST_DAGS_EMAIL")
    found: list[BaseNotifier] = [WebhookNotifier(address=address)] if address else []
    if mail:
        from airflow.providers.smtp.notifications.smtp import SmtpNotifier  # only where it is wanted

        text = "{{ dag.dag_id }} {{ run_id }} failed"
        to = [address.strip() for address in mail.split(",")]
        found.append(SmtpNotifier(to=to, subject=f"Hindcast: {text}", html_content=text))
    return found
