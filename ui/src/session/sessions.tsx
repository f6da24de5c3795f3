// Sessions, newest first.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useKeys } from "../core/keys";
import { usePoll } from "../core/polling";
import { ask, go, href, usePlace } from "../core/router";
import type { Page } from "../core/types";
import { Command, Loading, Trouble } from "../parts/common";
import { Foreign } from "../parts/text";
import { Ago } from "../parts/time";
import { count } from "../text/words";

interface SessionRecord {
  session_id: string;
  revision: number;
  jobs: number;
  spoken_at: number | null;
}

export function SessionsPage(): JSX.Element {
  const { query } = usePlace();
  const text = query.get("text") ?? "";
  const [typed, setTyped] = useState(text);
  const page = usePoll<Page<SessionRecord>>(
    `/api/sessions${href([], { limit: 50, cursor: query.get("cursor"), text }).slice(1)}`,
    3000,
  );
  const sessions = page.value?.items ?? [];
  const [at, setAt] = useState(-1);
  const chosen = sessions[at];
  useKeys([
    { keys: "j", what: "next session", do: () => setAt(Math.min(at + 1, sessions.length - 1)) },
    { keys: "k", what: "previous session", do: () => setAt(Math.max(at - 1, 0)) },
    { keys: "Enter", what: "open it", do: () => chosen && go(href(["sessions", chosen.session_id])) },
    { keys: "/", what: "search", do: () => document.getElementById("session-text")?.focus() },
  ]);
  return (
    <>
      <h1>Sessions</h1>
      <form
        class="filters"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          ask({ text: typed.trim() || null, cursor: null });
        }}
      >
        <label class="grow">
          <span>Search</span>
          <input
            id="session-text"
            type="search"
            value={typed}
            placeholder="part of the id   ( / )"
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </label>
        <button type="submit">Search</button>
      </form>
      {page.problem && <Trouble problem={page.problem} again={page.again} />}
      {page.value === null && !page.problem && <Loading what="sessions" />}
      {page.value && sessions.length === 0 && (
        <div class="empty">
          <p>
            <b>{text ? "No session matches." : "There are no conversations yet."}</b> Start one:{" "}
            <Command text="holdfast agent create helper" /> and <Command text="holdfast chat helper" />
          </p>
        </div>
      )}
      {sessions.length > 0 && (
        <div class="table">
          <table>
            <thead>
              <tr>
                <th>session</th>
                <th class="num">messages</th>
                <th class="num">revision</th>
                <th class="num">last message</th>
              </tr>
            </thead>
            <tbody>
              {sessions.map((one, nth) => (
                <tr key={one.session_id} class={nth === at ? "here" : ""}>
                  <td>
                    <a class="mono" href={href(["sessions", one.session_id])}>
                      <Foreign text={one.session_id} most={80} />
                    </a>
                  </td>
                  <td class="num">{count(one.jobs)}</td>
                  <td class="num dim">{count(one.revision)}</td>
                  <td class="num">{one.spoken_at !== null && <Ago at={one.spoken_at} />}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <div class="row end">
        {query.has("cursor") && (
          <button type="button" onClick={() => ask({ cursor: null })}>
            Newest
          </button>
        )}
        {page.value?.next && (
          <button type="button" onClick={() => ask({ cursor: page.value?.next ?? null })}>
            Older
          </button>
        )}
      </div>
    </>
  );
}
