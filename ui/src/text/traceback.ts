// A recorded error as text: the author's frames as Python prints them, the errors behind it first.

interface RecordedError {
  type?: unknown;
  message?: unknown;
  traceback?: unknown;
  cause?: unknown;
}

interface Frame {
  file?: unknown;
  line?: unknown;
  function?: unknown;
  code?: unknown;
  skipped?: unknown;
}

function asRecord<T extends object>(value: unknown): T | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as T) : undefined;
}

/** `KeyError: 'nope'`; nothing, if this is no recorded error. */
export function errorLine(value: unknown): string {
  const error = asRecord<RecordedError>(value);
  if (error?.type === undefined) return "";
  const message = String(error.message ?? "");
  return message ? `${String(error.type)}: ${message}` : String(error.type);
}

/** The error with its frames; nothing, if it was recorded without. */
export function tracebackText(value: unknown): string {
  const error = asRecord<RecordedError>(value);
  if (!error) return "";
  const behind = tracebackText(error.cause);
  const frames = frameLines(error.traceback);
  if (frames.length === 0 && !behind) return "";
  return [...(behind ? [behind, "which led to"] : []), ...frames, errorLine(error)].join("\n");
}

function frameLines(frames: unknown): string[] {
  if (!Array.isArray(frames)) return [];
  return frames.flatMap((value: unknown) => {
    const frame = asRecord<Frame>(value);
    if (!frame) return [];
    return [
      ...(typeof frame.skipped === "number" ? [`… ${frame.skipped} frames are left out`] : []),
      `File "${String(frame.file)}", line ${String(frame.line)}, in ${String(frame.function)}`,
      ...(frame.code ? [`  ${String(frame.code)}`] : []),
    ];
  });
}

/** The error of the last cause that has one; the value itself, if it is no list of causes. */
export function lastError(value: unknown): unknown {
  if (!Array.isArray(value)) return value;
  const errors = value.map((cause: unknown) => asRecord<{ error?: unknown }>(cause)?.error);
  return errors.filter((error) => error !== null && error !== undefined).at(-1);
}
