// What a model was asked: the conversation as it was sent. All of it is text.

import type { JSX } from "preact";
import { Block, Foreign, Named } from "../parts/text";
import { pretty } from "../text/exact";
import { plural } from "../text/words";

const TAIL = 4;

export interface Request {
  model: string;
  settings?: unknown;
  messages: readonly unknown[];
}

export function Messages({ request }: { request: Request }): JSX.Element {
  const { messages, settings } = request;
  const early = messages.slice(0, Math.max(messages.length - TAIL, 0));
  const late = messages.slice(early.length);
  return (
    <details class="named" open>
      <summary>
        Request{" "}
        <span class="dim">
          {plural(messages.length, "message")} to <Foreign text={request.model} most={60} />
        </span>
      </summary>
      {settings !== null && settings !== undefined && <Named name="Settings and tools" value={settings} open={false} />}
      {early.length > 0 && (
        <details>
          <summary class="dim small">{plural(early.length, "earlier message")}</summary>
          {early.map((message, nth) => (
            <Message key={nth} message={message} />
          ))}
        </details>
      )}
      {late.map((message, nth) => (
        <Message key={early.length + nth} message={message} />
      ))}
    </details>
  );
}

export function Message({ message }: { message: unknown }): JSX.Element {
  const { role, text } = told(message);
  return (
    <div class={`message ${role === "user" || role === "assistant" ? role : ""}`}>
      <b class="small dim">
        <Foreign text={role} most={40} />
      </b>
      <Block text={text} class="words" />
    </div>
  );
}

/** A message of any provider as text: its texts, and its tool calls as JSON. */
export function told(message: unknown): { role: string; text: string } {
  if (typeof message === "string") return { role: "text", text: message };
  if (typeof message !== "object" || message === null) return { role: "value", text: pretty(message) };
  const { role, content, tool_calls } = message as Record<string, unknown>;
  const words = [contentOf(content)];
  if (Array.isArray(tool_calls)) words.push(pretty(tool_calls));
  if (content === undefined && tool_calls === undefined) return { role: "message", text: pretty(message) };
  return { role: typeof role === "string" ? role : "message", text: words.filter(Boolean).join("\n\n") };
}

export function contentOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (content === null || content === undefined) return "";
  if (!Array.isArray(content)) return pretty(content);
  return content.map(partOf).join("\n\n");
}

function partOf(part: unknown): string {
  if (typeof part === "string") return part;
  if (typeof part !== "object" || part === null) return pretty(part);
  const one = part as Record<string, unknown>;
  if (one.type === "text" && typeof one.text === "string") return one.text;
  if (one.type === "tool_use") return `→ ${String(one.name)} ${pretty(one.input)}`;
  if (one.type === "tool_result") return `← ${contentOf(one.content)}`;
  return pretty(part);
}
