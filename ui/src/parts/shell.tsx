// What is around every page: the way to the others, the light that says whether we hear the server, help and keys.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { asksForKey, keepBearer, outlived, useBearer } from "../core/auth";
import { connection } from "../core/connection";
import { shortcuts, useKeys } from "../core/keys";
import { usePoll } from "../core/polling";
import { subscribeToJobs } from "../core/job_feed";
import { go, usePlace } from "../core/router";
import type { Need, Page } from "../core/types";
import { useStore } from "../core/store";
import { theme, turnTheme } from "../core/theme";
import { Asker, Modal } from "./dialog";
import { say, Toasts } from "./toasts";

const PAGES = [
  { path: "/", name: "Home", key: "h" },
  { path: "/jobs", name: "Jobs", key: "j" },
  { path: "/sessions", name: "Sessions", key: "s" },
  { path: "/agents", name: "Agents", key: "a" },
  { path: "/dashboard", name: "Metrics", key: "n" },
] as const;

export function Shell({ children }: { children: ComponentChildren }): JSX.Element {
  const [helping, setHelping] = useState(false);
  const bearer = useBearer();
  useEffect(() => subscribeToJobs(), [bearer]);
  useEffect(
    () =>
      outlived.watch(() =>
        say(
          "The server was restarted and has a new token. This page is read-only now.",
          "warn",
          "To make changes, open the link with #token=… that the server printed.",
        ),
      ),
    [],
  );
  useKeys([
    ...PAGES.map((page) => ({ keys: `g ${page.key}`, what: `go to ${page.name}`, do: () => go(page.path) })),
    { keys: "?", what: "keyboard shortcuts", do: () => setHelping(true) },
    { keys: "t", what: "light, dark or system colours", do: turnTheme },
  ]);
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Top help={() => setHelping(true)} />
      <main id="main" tabIndex={-1}>
        {children}
      </main>
      {helping && <Help close={() => setHelping(false)} />}
      <KeyDialog />
      <Asker />
      <Toasts />
    </>
  );
}

function Top({ help }: { help(): void }): JSX.Element {
  const { path } = usePlace();
  const first = `/${path[0] ?? ""}`;
  const needs = usePoll<Page<Need>>("/api/needs?limit=100", 5000);
  const waiting = needs.value?.items.filter((need) => need.person).length ?? 0;
  const shown = useStore(theme);
  return (
    <header class="top">
      <a class="brand" href="/" aria-label="Holdfast, home">
        <svg viewBox="0 0 32 32" aria-hidden="true">
          <path d="M16 3v14M16 11c-5 0-6-3-6-6M16 14c5 0 6-3 6-6M16 17c0 5-3 5-5 10M16 17v11M16 17c0 5 3 5 5 10" />
        </svg>
        <span>Holdfast</span>
      </a>
      <nav aria-label="Pages">
        {PAGES.map((page) => (
          <a key={page.path} href={page.path} aria-current={first === page.path ? "page" : undefined}>
            {page.name}
            {page.path === "/" && waiting > 0 && (
              <span class="badge" aria-label={`${waiting} need attention`}>
                {waiting}
                {needs.value?.next ? "+" : ""}
              </span>
            )}
          </a>
        ))}
      </nav>
      <div class="tools">
        <Light />
        <Access />
        <button
          type="button"
          class="icon"
          onClick={turnTheme}
          aria-label={`Colours: ${shown}. Change`}
          title={`Colours: ${shown} (t)`}
        >
          <svg viewBox="0 0 16 16" aria-hidden="true">
            {THEMES[shown]}
          </svg>
        </button>
        <button type="button" class="icon" onClick={help} aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)">
          ?
        </button>
      </div>
    </header>
  );
}

const THEMES = {
  system: <path d="M2.5 3h11v8h-11zM6 13.5h4M8 11v2.5" />,
  light: (
    <path d="M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1" />
  ),
  dark: <path d="M13.5 9.5A6 6 0 1 1 6.5 2.5a5 5 0 0 0 7 7z" />,
};

const LIGHTS = {
  live: ["good", "live", "Connected: changes are shown as they happen."],
  up: ["good", "up", "The server responds."],
  reconnecting: ["warn", "reconnecting", "The event stream was interrupted. It continues after the last event received."],
  away: ["bad", "no response", "The server does not respond. The page shows the last known state."],
} as const;

function Light(): JSX.Element {
  const [tone, word, title] = LIGHTS[useStore(connection)];
  return (
    <span class={`light ${tone}`} role="status" title={title}>
      <i aria-hidden="true" />
      {word}
    </span>
  );
}

interface Whoami {
  name: string;
  namespace: string;
  roles: readonly string[];
  version?: string;
}

function Access(): JSX.Element {
  const bearer = useBearer();
  const who = usePoll<Whoami>("/api/whoami", 60_000).value;
  if (bearer === null) {
    return (
      <button
        type="button"
        class="access quiet"
        onClick={() => asksForKey.set(true)}
        title="Without a token or API key you can look, but not make changes"
      >
        read only
      </button>
    );
  }
  const forget = (): void => {
    keepBearer(null);
    say("Signed out in this tab.");
  };
  return (
    <button
      type="button"
      class="access quiet"
      onClick={forget}
      title={`${who ? `${who.name}, ${who.roles.join(", ")} in ${who.namespace}. ` : ""}Sign out in this tab`}
    >
      {who?.name ?? "signed in"} · sign out
    </button>
  );
}

function KeyDialog(): JSX.Element | null {
  const open = useStore(asksForKey);
  const [value, setValue] = useState("");
  if (!open) return null;
  const close = (): void => asksForKey.set(false);
  return (
    <Modal title="Sign in" close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const said = value.trim();
          // The whole printed link will do as well.
          keepBearer(said.match(/[#?&]token=([^&\s]+)/)?.[1] ?? said);
          setValue("");
          close();
        }}
      >
        <p>
          On your own machine, open the link that <code>holdfast up</code> or <code>holdfast serve</code> printed: it
          ends in <code>#token=…</code>. Elsewhere paste an API key, made with{" "}
          <code>holdfast api-key create --role operator --name you --why '…'</code>.
        </p>
        <div class="field">
          <label for="bearer">API key, token, or the whole link</label>
          <input
            id="bearer"
            type="password"
            autocomplete="off"
            autofocus
            required
            value={value}
            onInput={(event) => setValue(event.currentTarget.value)}
          />
          <p class="dim small">It is kept in this tab only, and sent to this server only.</p>
        </div>
        <div class="row end">
          <button type="button" onClick={close}>
            Stay read-only
          </button>
          <button type="submit" class="primary">
            Sign in
          </button>
        </div>
      </form>
    </Modal>
  );
}

function Help({ close }: { close(): void }): JSX.Element {
  const layers = useStore(shortcuts);
  const version = usePoll<Whoami>("/api/whoami", null).value?.version;
  return (
    <Modal title="Keyboard shortcuts" close={close}>
      {[...layers].reverse().map((layer, nth) => (
        <dl class="keys" key={nth}>
          {layer.map((one) => (
            <div key={one.keys}>
              <dt>
                {one.keys.split(" ").map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </dt>
              <dd>{one.what}</dd>
            </div>
          ))}
        </dl>
      ))}
      {version && <p class="dim small">Holdfast {version}</p>}
    </Modal>
  );
}
