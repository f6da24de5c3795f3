// Files of the session, as far as the store knows them: the bytes are elsewhere, and their address is shown as text.

import type { JSX } from "preact";
import { at } from "../core/api";
import { usePoll } from "../core/polling";
import { Copy, Section } from "../parts/common";
import { Foreign } from "../parts/text";
import { Ago } from "../parts/time";

interface Attachment {
  attachment_id: string;
  uri: string;
  intent_at: number;
  committed_at: number | null;
}

export function Attachments({ sessionId }: { sessionId: string }): JSX.Element | null {
  const found = usePoll<{ items: readonly Attachment[] }>(at`/api/sessions/${sessionId}/attachments`, 10_000).value;
  if (!found || found.items.length === 0) return null;
  return (
    <Section title="Attachments">
      <ul class="plain">
        {found.items.map((one) => (
          <li key={one.attachment_id}>
            <Foreign text={one.attachment_id} most={60} />{" "}
            <span class="dim small">
              {one.committed_at === null ? (
                <>
                  meant <Ago at={one.intent_at} />, no turn has it
                </>
              ) : (
                <Ago at={one.committed_at} />
              )}
            </span>
            <p class="small mono dim">
              <Foreign text={one.uri} most={120} /> <Copy text={one.uri} what="address" />
            </p>
          </li>
        ))}
      </ul>
    </Section>
  );
}
