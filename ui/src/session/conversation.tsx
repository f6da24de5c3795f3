// What was said, and what is being said.

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { JobRecord, Session, SessionNode } from "../core/types";
import { PassageView, Streaming, useOutputStream } from "../job/output_stream";
import { JobLink } from "../parts/common";
import { Block, Foreign, Named } from "../parts/text";
import { Ago } from "../parts/time";
import { spaced } from "../text/words";
import { sayingOf } from "./nodes";

const SHOWN_MAX = 400;
/** Streams that are not the answer itself. */
const ASIDES = new Set(["thinking", "tool"]);

interface ConversationProps {
  path: readonly SessionNode[];
  turn: JobRecord | null;
  frames: Session["frames"];
}

export function Conversation({ path, turn, frames }: ConversationProps): JSX.Element {
  const end = useRef<HTMLDivElement>(null);
  const last = path.at(-1)?.node_id;
  useEffect(() => end.current?.scrollIntoView({ block: "nearest" }), [last, turn?.job_id]);
  const shown = path.slice(-SHOWN_MAX);
  return (
    <div class="conversation" role="log" aria-label="Conversation">
      {path.length > shown.length && (
        <p class="dim small">{path.length - shown.length} earlier entries are not shown.</p>
      )}
      {shown.map((node, nth) => {
        const before = shown[nth - 1];
        const frame =
          before && before.frame_id !== node.frame_id
            ? frames.find((one) => one.frame_id === node.frame_id)
            : undefined;
        return (
          <div key={node.node_id}>
            {frame && (
              <p class="frame">
                <span>
                  new frame: <Foreign text={spaced(frame.reason)} most={80} />
                </span>
              </p>
            )}
            <Entry node={node} />
          </div>
        );
      })}
      {turn && <Now key={turn.job_id} turn={turn} />}
      <div ref={end} />
    </div>
  );
}

function Entry({ node }: { node: SessionNode }): JSX.Element {
  const said = sayingOf(node);
  const mine = said.role === "user";
  return (
    <article class={`entry ${mine ? "mine" : said.role === "assistant" ? "theirs" : "other"}`}>
      <header class="small dim">
        <b>
          <Foreign text={said.role} most={40} />
        </b>
        {node.at > 0 && <Ago at={node.at} />}
        {node.caused_by?.startsWith("job_") && <JobLink id={node.caused_by} />}
      </header>
      {said.text ? <Block text={said.text} class="words" /> : <Named name="entry" value={said.raw} />}
    </article>
  );
}

/** The turn under way, word by word. */
function Now({ turn }: { turn: JobRecord }): JSX.Element {
  const { passages, state } = useOutputStream(turn.job_id, false);
  const answers = passages.filter((one) => !ASIDES.has(one.stream));
  return (
    <article class="entry theirs now" aria-live="polite">
      <header class="small dim">
        <b>assistant</b>
        <Streaming state={state} />
        <JobLink id={turn.job_id} />
      </header>
      {answers.length === 0 && (
        <p class="dim">{turn.status === "waiting" ? `waiting: ${spaced(turn.wait_reason ?? "")}` : "thinking …"}</p>
      )}
      {answers.map((one) => (
        <PassageView key={`${one.step} ${one.stream} ${one.attempt}`} passage={one} label={false} />
      ))}
    </article>
  );
}
