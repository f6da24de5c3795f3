// A message to the agent.

import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { at, newKey, post } from "../core/api";
import { pollEverywhere, problemIn } from "../core/polling";
import { sayProblem } from "../parts/toasts";
import { spaced } from "../text/words";

const DELIVERIES = ["earliest_safe_boundary", "after_current_turn_commit"] as const;

export function Composer({ agent, sessionId, busy }: { agent: string; sessionId: string; busy: boolean }): JSX.Element {
  const [text, setText] = useState("");
  const [delivery, setDelivery] = useState<string>(DELIVERIES[0]);
  const [sending, setSending] = useState(false);
  // One key for one message: a send that got no answer may be sent again, and is the same message.
  const key = useRef(newKey());
  const send = async (): Promise<void> => {
    if (!text.trim() || sending) return;
    setSending(true);
    try {
      await post(at`/api/agents/${agent}/message`, { text, session_id: sessionId, delivery }, key.current);
      key.current = newKey();
      setText("");
      pollEverywhere();
    } catch (error) {
      sayProblem(problemIn(error));
    } finally {
      setSending(false);
    }
  };
  return (
    <form
      class="composer sheet"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <label class="sr" for="message">
        Message
      </label>
      <textarea
        id="message"
        rows={2}
        value={text}
        placeholder="Write a message   (Ctrl+Enter sends)"
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void send();
        }}
      />
      <div class="row end">
        {busy && (
          <label class="row small dim">
            deliver
            <select value={delivery} onChange={(event) => setDelivery(event.currentTarget.value)}>
              {DELIVERIES.map((one) => (
                <option key={one} value={one}>
                  {spaced(one)}
                </option>
              ))}
            </select>
          </label>
        )}
        <button type="submit" class="primary" disabled={sending || !text.trim()}>
          Send
        </button>
      </div>
    </form>
  );
}
