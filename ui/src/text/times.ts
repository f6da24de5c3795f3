// Instants are microseconds since 1970, stretches of time are microseconds. The words are those of the command line.

const MS = 1000;
const SECOND = 1000 * MS;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export const nowUs = (): number => Date.now() * MS;

/** `340ms`, `4.2s`, `3m20s`, `5h12m`, `3d4h`. */
export function span(us: number): string {
  const length = Math.max(us, 0);
  if (length < MS) return length === 0 ? "0ms" : `${Math.round(length)}µs`;
  if (length < SECOND) return `${Math.floor(length / MS)}ms`;
  if (length < 10 * SECOND) return `${(length / SECOND).toFixed(1)}s`;
  if (length < MINUTE) return `${Math.floor(length / SECOND)}s`;
  const [unit, small, names] =
    length >= DAY
      ? ([DAY, HOUR, "dh"] as const)
      : length >= HOUR
        ? ([HOUR, MINUTE, "hm"] as const)
        : ([MINUTE, SECOND, "ms"] as const);
  const rest = Math.floor((length % unit) / small);
  return `${Math.floor(length / unit)}${names[0]}${rest ? `${rest}${names[1]}` : ""}`;
}

/** `just now`, `12s ago`, `in 3m`, and the date when it is long past. */
export function ago(at: number, now: number): string {
  const past = now - at;
  if (Math.abs(past) < 2 * SECOND) return "just now";
  if (past > 7 * DAY)
    return new Date(at / MS).toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
  const length = Math.abs(past);
  const rough =
    length >= DAY
      ? `${Math.floor(length / DAY)}d`
      : length >= HOUR
        ? `${Math.floor(length / HOUR)}h`
        : length >= MINUTE
          ? `${Math.floor(length / MINUTE)}m`
          : `${Math.floor(length / SECOND)}s`;
  return past > 0 ? `${rough} ago` : `in ${rough}`;
}

const two = (n: number, width = 2): string => String(n).padStart(width, "0");

/** Date and time in the time zone of the browser, to the millisecond, and that zone. */
export function exact(at: number): string {
  const date = new Date(at / MS);
  const zone = -date.getTimezoneOffset();
  const sign = zone < 0 ? "-" : "+";
  const offset = zone === 0 ? "UTC" : `UTC${sign}${two(Math.floor(Math.abs(zone) / 60))}:${two(Math.abs(zone) % 60)}`;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(at)} ${offset}`;
}

/** The time of day, to the millisecond. */
export function clock(at: number): string {
  const date = new Date(at / MS);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${two(date.getMilliseconds(), 3)}`;
}

export const iso = (at: number): string => new Date(at / MS).toISOString();
export const fromIso = (text: string): number | null => {
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : at * MS;
};

/** Local midnight. */
export function midnight(): number {
  const date = new Date();
  date.setHours(0, 0, 0, 0);
  return date.getTime() * MS;
}
