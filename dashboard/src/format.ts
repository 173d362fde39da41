// Texts of times, durations, numbers and ids.

import { signal } from "@preact/signals";
import { store, stored } from "./storage.ts";

export type TimeMode = "relative" | "local" | "utc";
const MODES: readonly TimeMode[] = ["relative", "local", "utc"];

/** How lists show times; `t` goes to the next mode. */
export const timeMode = signal<TimeMode>(MODES.find((mode) => mode === stored("times")) ?? "relative");

export function nextTimeMode(): TimeMode {
  timeMode.value = MODES[(MODES.indexOf(timeMode.value) + 1) % MODES.length] as TimeMode;
  store("times", timeMode.value);
  return timeMode.value;
}

const pad = (value: number, digits = 2) => String(value).padStart(digits, "0");

/** `26 ms`, `1.24 s`, `3 m 12 s`, `2 h 5 m`, `4 d 3 h`. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "";
  if (seconds < 0) return "0 ms";
  if (seconds < 0.0095) return `${Number((seconds * 1000).toFixed(1))} ms`;
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 59.995) return `${Number(seconds.toFixed(2))} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${whole % 60} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${minutes % 60} m`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

/** `now`, `12 s ago`, `5 m ago`, `in 3 h`. */
export function ago(time: string | null | undefined, now: number): string {
  if (!time) return "";
  const seconds = (now - Date.parse(time)) / 1000;
  if (Number.isNaN(seconds)) return time;
  const size = Math.abs(seconds);
  if (size < 2) return "now";
  const text =
    size < 60
      ? `${Math.floor(size)} s`
      : size < 3600
        ? `${Math.floor(size / 60)} m`
        : size < 86400
          ? `${Math.floor(size / 3600)} h`
          : `${Math.floor(size / 86400)} d`;
  return seconds < 0 ? `in ${text}` : `${text} ago`;
}

/** `2026-11-24 13:02:11.204`, in local time or UTC. */
export function instant(time: string | null | undefined, utc = false, millis = false): string {
  if (!time) return "";
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return time;
  const parts = utc
    ? [date.getUTCFullYear(), date.getUTCMonth() + 1, date.getUTCDate()]
    : [date.getFullYear(), date.getMonth() + 1, date.getDate()];
  const day = `${parts[0]}-${pad(parts[1] as number)}-${pad(parts[2] as number)}`;
  const clock = utc
    ? [date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds(), date.getUTCMilliseconds()]
    : [date.getHours(), date.getMinutes(), date.getSeconds(), date.getMilliseconds()];
  const seconds = `${pad(clock[0] as number)}:${pad(clock[1] as number)}:${pad(clock[2] as number)}`;
  return `${day} ${seconds}${millis ? `.${pad(clock[3] as number, 3)}` : ""}${utc ? " UTC" : ""}`;
}

/** The time as the mode says. */
export function when(time: string | null | undefined, now: number, mode: TimeMode): string {
  return mode === "relative" ? ago(time, now) : instant(time, mode === "utc");
}

/** `1,204`. */
export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? "" : value.toLocaleString("en-US");
}

/** `3 executions`, `1 execution`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** `12 kB`, `1.4 MB`. */
export function bytes(size: number | null | undefined): string {
  if (size === null || size === undefined) return "";
  if (size < 1000) return `${size} B`;
  if (size < 1e6) return `${Number((size / 1e3).toFixed(1))} kB`;
  if (size < 1e9) return `${Number((size / 1e6).toFixed(1))} MB`;
  return `${Number((size / 1e9).toFixed(1))} GB`;
}

/** `$1,204.50`; a small amount has as many digits as it needs to be seen: `$0.00002`. */
export function dollars(value: number | null | undefined): string {
  if (value === null || value === undefined) return "";
  if (value === 0 || Math.abs(value) >= 1)
    return `$${value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
  const digits = Math.max(2, 2 - Math.floor(Math.log10(Math.abs(value))));
  const [whole = "0", rest = ""] = value.toFixed(Math.min(digits, 20)).split(".");
  return `$${whole}.${rest.replace(/0+$/, "").padEnd(2, "0")}`;
}

/** `3.1 %`. */
export function percent(part: number, whole: number): string {
  return whole === 0 ? "" : `${Number(((part / whole) * 100).toFixed(1))} %`;
}

// Characters that turn the direction of text or are invisible: a name with them could look like another one.
const HIDDEN: Readonly<Record<string, string>> = {
  "\u200b": "ZWSP", "\u200e": "LRM", "\u200f": "RLM", "\u202a": "LRE", "\u202b": "RLE", "\u202c": "PDF",
  "\u202d": "LRO", "\u202e": "RLO", "\u2060": "WJ", "\u2066": "LRI", "\u2067": "RLI", "\u2068": "FSI",
  "\u2069": "PDI", "\ufeff": "BOM",
};

/** Text from outside, with marks such as ⟨RLO⟩ in the place of hidden characters. */
export function visible(text: string): string {
  return text.replace(/[\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g, (c) => `⟨${HIDDEN[c] ?? "?"}⟩`);
}

/** A name in one line: hidden characters are shown, and it is cut at 200. */
export function nameText(text: string | null | undefined): string {
  if (!text) return "";
  const shown = visible(text).replace(/[\u0000-\u001f\u007f]+/g, " ");
  return shown.length > 200 ? `${shown.slice(0, 199)}…` : shown;
}
