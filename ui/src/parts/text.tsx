// Text and values of others, shown as what they are.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { pretty } from "../text/exact";
import { parts, shortened, visible } from "../text/visible";
import { count } from "../text/words";

const SHOWN_MAX = 12_000;

/** Foreign text in a line. Its direction stays inside. */
export function Foreign({
  text,
  most = 200,
  class: name,
}: {
  text: string;
  most?: number;
  class?: string;
}): JSX.Element {
  const cut = text.length > most;
  return (
    <bdi class={name} title={cut ? visible(text.slice(0, 1000)) : undefined}>
      {marked(shortened(text, most))}
    </bdi>
  );
}

function marked(text: string): (JSX.Element | string)[] {
  return parts(text).map((part, nth) =>
    part.hidden === undefined ? (
      part.text
    ) : (
      <span key={nth} class="unseen" title={`${part.text} ${part.hidden}`}>
        {part.text}
      </span>
    ),
  );
}

/** Foreign text as it was written: lines are kept, nothing is a link, nothing is markup. What is huge is cut until asked for. */
export function Block({ text, class: name = "" }: { text: string; class?: string }): JSX.Element {
  const [all, setAll] = useState(false);
  const cut = !all && text.length > SHOWN_MAX;
  const shown = useMemo(() => marked(cut ? text.slice(0, SHOWN_MAX) : text), [text, cut]);
  return (
    <div class={`block ${name}`}>
      <pre dir="ltr" tabIndex={0}>
        {shown}
      </pre>
      {cut && (
        <button type="button" class="quiet" onClick={() => setAll(true)}>
          Show all {count(text.length)} characters
        </button>
      )}
    </div>
  );
}

/** A value: text as text, everything else as JSON with every digit it had. */
export function Value({ value }: { value: unknown }): JSX.Element {
  const text = useMemo(() => (typeof value === "string" ? value : pretty(value)), [value]);
  return <Block text={text} class={typeof value === "string" ? "words" : "json"} />;
}

/** A value by its name; folded if asked for. */
export function Named({
  name,
  value,
  open = true,
  hint,
}: {
  name: string;
  value: unknown;
  open?: boolean;
  hint?: string;
}): JSX.Element {
  return (
    <details class="named" open={open}>
      <summary>
        {name}
        {hint && <span class="dim"> {hint}</span>}
      </summary>
      <Value value={value} />
    </details>
  );
}
