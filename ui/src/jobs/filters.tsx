// The filters. Each change is a new address.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { usePoll } from "../core/polling";
import { ask, go } from "../core/router";
import { Foreign } from "../parts/text";
import { WAIT_REASONS, spaced } from "../text/words";
import { type Filter, SINCE, isFiltered } from "./filter";

const TYPING_MS = 300;

export function Filters({ filter }: { filter: Filter }): JSX.Element {
  const names = usePoll<{ kinds: readonly string[]; queues: readonly string[] }>("/api/names", 30_000).value;
  const set = (name: keyof Filter, value: string): void => ask({ [name]: value || null, cursor: null });
  return (
    <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
      <Typed
        id="filter-text"
        name="text"
        label="Search"
        value={filter.text ?? ""}
        set={set}
        placeholder="id, kind, session, key   ( / )"
      />
      <Typed
        id="filter-kind"
        name="kind"
        label="Agent or kind"
        value={filter.kind ?? ""}
        set={set}
        list={names?.kinds ?? []}
      />
      <Typed
        id="filter-queue"
        name="queue"
        label="Queue"
        value={filter.queue ?? ""}
        set={set}
        list={names?.queues ?? []}
      />
      <Chosen
        id="filter-reason"
        label="Wait reason"
        value={filter.wait_reason ?? ""}
        set={(value) =>
          ask({ wait_reason: value || null, status: value ? "waiting" : (filter.status ?? null), cursor: null })
        }
        choices={[["", "any"], ...WAIT_REASONS.map((one) => [one, spaced(one)] as const)]}
      />
      <Chosen
        id="filter-since"
        label="Since"
        value={filter.since ?? ""}
        set={(value) => set("since", value)}
        choices={SINCE}
      />
      {filter.session_id && <Fixed name="session" value={filter.session_id} drop={() => set("session_id", "")} />}
      {filter.parent_job_id && (
        <Fixed name="children of" value={filter.parent_job_id} drop={() => set("parent_job_id", "")} />
      )}
      {isFiltered(filter) && (
        <button type="button" class="quiet" onClick={() => go("/jobs")}>
          Show all
        </button>
      )}
    </form>
  );
}

interface TypedProps {
  id: string;
  name: keyof Filter;
  label: string;
  value: string;
  set(name: keyof Filter, value: string): void;
  list?: readonly string[];
  placeholder?: string;
}

/** Text that becomes a filter when its writer pauses. */
function Typed({ id, name, label, value, set, list, placeholder }: TypedProps): JSX.Element {
  const [typed, setTyped] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => setTyped(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <label class={name === "text" ? "grow" : ""}>
      <span>{label}</span>
      <input
        id={id}
        type="search"
        value={typed}
        placeholder={placeholder}
        list={list ? `${id}-list` : undefined}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => {
          const next = event.currentTarget.value;
          setTyped(next);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => set(name, next.trim()), TYPING_MS);
        }}
        onKeyDown={(event) => {
          if (event.key !== "Enter") return;
          clearTimeout(timer.current);
          set(name, typed.trim());
        }}
      />
      {list && (
        <datalist id={`${id}-list`}>
          {list.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
    </label>
  );
}

function Chosen({
  id,
  label,
  value,
  set,
  choices,
}: {
  id: string;
  label: string;
  value: string;
  set(value: string): void;
  choices: readonly (readonly [string, string])[];
}): JSX.Element {
  return (
    <label>
      <span>{label}</span>
      <select id={id} value={value} onChange={(event) => set(event.currentTarget.value)}>
        {choices.map(([key, words]) => (
          <option key={key} value={key}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}

function Fixed({ name, value, drop }: { name: string; value: string; drop(): void }): JSX.Element {
  return (
    <span class="fixed">
      {name} <Foreign class="mono" text={value} most={60} />
      <button type="button" class="icon" aria-label={`Any ${name}`} onClick={drop}>
        ×
      </button>
    </span>
  );
}
