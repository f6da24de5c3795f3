// What is queued for the session, in the order in which it will be taken.

import type { JSX } from "preact";
import { at, remove } from "../core/api";
import { problemIn } from "../core/polling";
import type { Batch } from "../core/types";
import { contentOf } from "../job/messages";
import { JobLink, Section } from "../parts/common";
import { askPerson } from "../parts/dialog";
import { Foreign } from "../parts/text";
import { Ago, useNow } from "../parts/time";
import { say, sayProblem } from "../parts/toasts";
import { span } from "../text/times";
import { spaced } from "../text/words";

export function Inbox({
  sessionId,
  batches,
  again,
}: {
  sessionId: string;
  batches: readonly Batch[];
  again(): void;
}): JSX.Element {
  const now = useNow();
  const takeBack = async (batch: Batch): Promise<void> => {
    const sure = await askPerson({
      title: "Withdraw this input?",
      body: "It is removed from the queue, and no turn will see it.",
      confirm: "Withdraw",
      tone: "danger",
    });
    if (sure === null) return;
    try {
      await remove(at`/api/sessions/${sessionId}/inbox/${batch.batch_id}`);
      say("Withdrawn.");
      again();
    } catch (error) {
      sayProblem(problemIn(error));
    }
  };
  return (
    <Section title="Inbox" aside={batches.length === 0 ? "" : `${batches.length} queued`}>
      {batches.length === 0 && <p class="dim small">The inbox is empty.</p>}
      <ol class="plain">
        {batches.map((batch) => (
          <li key={batch.batch_id} class="batch sheet">
            <p>
              <Foreign text={batch.items.map(textOf).join(" · ")} most={240} />
            </p>
            <p class="small dim">
              {spaced(batch.delivery)}, {batch.slot} · <Ago at={batch.enqueued_at} />
              {batch.available_at > now && <> · not before {span(batch.available_at - now)} from now</>}
            </p>
            <div class="row">
              {batch.job_id && <JobLink id={batch.job_id} />}
              <button type="button" class="danger" onClick={() => void takeBack(batch)}>
                Cancel
              </button>
            </div>
          </li>
        ))}
      </ol>
    </Section>
  );
}

function textOf(item: Batch["items"][number]): string {
  const payload = item.payload;
  if (typeof payload === "object" && payload !== null && "content" in payload)
    return contentOf((payload as Record<string, unknown>).content);
  return contentOf(payload);
}
