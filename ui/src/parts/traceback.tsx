// Where the code raised an error, if that is recorded: its frames as Python prints them.

import type { JSX } from "preact";
import { tracebackText } from "../text/traceback";
import { Block } from "./text";

export function Traceback({ error }: { error: unknown }): JSX.Element | null {
  const text = tracebackText(error);
  return text ? <Block text={text} class="traceback" /> : null;
}
