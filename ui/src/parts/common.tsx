// Small parts that every page uses.

import type { ComponentChildren, JSX } from "preact";
import type { Problem } from "../core/api";
import { asksForKey } from "../core/auth";
import { href } from "../core/router";
import { type Tone, shortId, shortWorker, stateWords, statusTone } from "../text/words";
import { visible } from "../text/visible";
import { say } from "./toasts";
import { Foreign } from "./text";

/** A status label: a coloured dot, and the word for readers who do not see colour. */
export function Pill({
  tone,
  children,
  title,
}: {
  tone: Tone;
  children: ComponentChildren;
  title?: string;
}): JSX.Element {
  return (
    <span class={`pill ${tone}`} title={title}>
      <i aria-hidden="true" />
      {children}
    </span>
  );
}

export const State = ({ status, reason }: { status: string; reason?: string | null }): JSX.Element => (
  <Pill tone={statusTone(status, reason)}>{stateWords(status, reason)}</Pill>
);

export function JobLink({ id, full = false }: { id: string; full?: boolean }): JSX.Element {
  return (
    <a class="mono" href={href(["jobs", id])} title={visible(id)}>
      <Foreign text={full ? id : shortId(id)} most={80} />
    </a>
  );
}

export const Who = ({ worker }: { worker: string }): JSX.Element => (
  <span class="mono" title={visible(worker)}>
    <Foreign text={shortWorker(worker)} most={40} />
  </span>
);

/** What went wrong and what to do about it. */
export function Trouble({ problem, again }: { problem: Problem; again?: () => void }): JSX.Element {
  return (
    <div class="trouble" role="alert">
      <b>{problem.title || "Error"}:</b> <Foreign text={problem.detail} most={600} />
      {problem.hint && (
        <p class="hint">
          <Foreign text={problem.hint} most={600} />
        </p>
      )}
      <div class="row">
        {problem.status === 401 && (
          <button type="button" onClick={() => asksForKey.set(true)}>
            Enter an API key
          </button>
        )}
        {again && (
          <button type="button" onClick={again}>
            Try again
          </button>
        )}
        {problem.request_id && <span class="dim mono small">request {problem.request_id}</span>}
      </div>
    </div>
  );
}

export const Loading = ({ what }: { what: string }): JSX.Element => (
  <p class="dim loading" role="status">
    Loading {what} …
  </p>
);

/** A command to type, with a button that copies it. */
export function Command({ text }: { text: string }): JSX.Element {
  return (
    <span class="command">
      <code>{visible(text)}</code>
      <Copy text={text} what="command" />
    </span>
  );
}

export function Copy({ text, what }: { text: string; what: string }): JSX.Element {
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      say(`Copied the ${what}.`);
    } catch {
      say(`The browser does not allow copying; select the ${what} instead.`, "warn");
    }
  };
  return (
    <button
      type="button"
      class="icon"
      onClick={() => void copy()}
      aria-label={`Copy the ${what}`}
      title={`Copy the ${what}`}
    >
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <path d="M5 5V2.5h8.5V11H11M2.5 5H11v8.5H2.5z" />
      </svg>
    </button>
  );
}

/** The three commands that give a first job. */
export function FirstJob(): JSX.Element {
  return (
    <ol class="first">
      <li>
        Create an agent. Without a model it answers from a script, offline. <Command text="holdfast agent create helper" />
      </li>
      <li>
        Talk to it. <Command text="holdfast chat helper" />
      </li>
      <li>
        Or run the demo: a worker is killed three times, and nothing is repeated.{" "}
        <Command text="holdfast demo --store sqlite:///holdfast.db" />
      </li>
    </ol>
  );
}

export function Section({
  title,
  aside,
  children,
  id,
}: {
  title: ComponentChildren;
  aside?: ComponentChildren;
  children: ComponentChildren;
  id?: string;
}): JSX.Element {
  return (
    <section id={id}>
      <header class="section">
        <h2>{title}</h2>
        {aside && <div class="aside">{aside}</div>}
      </header>
      {children}
    </section>
  );
}

/** Facts as a list of names and values; what is empty is left out. */
export function Facts({ facts }: { facts: readonly (readonly [string, ComponentChildren])[] }): JSX.Element {
  return (
    <dl class="facts">
      {facts
        .filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}
