// A JSON value as a tree that opens and closes. Large ones are shown as text and offered as a download.

import { useMemo, useState } from "preact/hooks";
import { bytes, count, visible } from "../format.ts";
import {
  countNodes, type JsonLine, jsonLines, MAX_BYTES, MAX_LINES, MAX_NODES, PREVIEW, type ReadJson,
} from "../json_lines.ts";
import { Download, OutsideLink } from "./link.tsx";
import { Copy, RedactedChip } from "./small.tsx";
import { jsonText } from "../json_numbers.ts";

const CUT = 400;

export interface JsonProps {
  readonly value: unknown;
  /** The path of the value in patterns, for "copy path": `data`. */
  readonly root?: string;
  /** The address of a download. */
  readonly download?: string;
  /** Called when a value is chosen, for example for a pattern. */
  readonly onPick?: (path: string, value: unknown) => void;
  readonly label?: string;
}

export function Json({ value, root = "", download, onPick, label = "Value" }: JsonProps) {
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  const [limit, setLimit] = useState(MAX_LINES);
  const [search, setSearch] = useState("");
  const whole = useMemo(() => jsonText(value, 2) ?? "null", [value]);
  const large = useMemo(() => whole.length > MAX_BYTES || countNodes(value) > MAX_NODES, [value, whole]);
  const { lines, more } = useMemo(
    () =>
      large
        ? { lines: [], more: false }
        : jsonLines(value, toggled, root, search ? 99 : 2, search ? 5000 : limit),
    [value, toggled, root, limit, large, search],
  );
  if (large) return <LargeText text={whole} size={whole.length} {...(download ? { download } : {})} />;
  const needle = search.toLowerCase();
  const shown = needle ? lines.filter((line) => lineText(line).toLowerCase().includes(needle)) : lines;
  return (
    <div class="json" role="group" aria-label={label}>
      <div class="json-tools">
        {lines.length > 8 && (
          <input
            type="search"
            placeholder="search"
            aria-label="Search in the value"
            value={search}
            onInput={(event) => setSearch(event.currentTarget.value)}
          />
        )}
        <span class="spacer" />
        <Copy text={whole} what={label.toLowerCase()}>
          copy
        </Copy>
        {download && (
          <Download to={download}>download</Download>
        )}
      </div>
      <div class="json-lines">
        {shown.slice(0, search ? MAX_LINES : undefined).map((line) => (
          <Line
            key={line.id}
            line={line}
            flat={needle !== ""}
            toggle={() => {
              const next = new Set(toggled);
              if (!next.delete(line.id)) next.add(line.id);
              setToggled(next);
            }}
            {...(onPick ? { onPick } : {})}
          />
        ))}
        {needle && !shown.length && <p class="dim">Nothing contains “{search}”.</p>}
      </div>
      {more && !search && (
        <button type="button" class="link" onClick={() => setLimit(limit + MAX_LINES)}>
          more lines
        </button>
      )}
    </div>
  );
}

function lineText(line: JsonLine): string {
  return `${line.key ?? ""} ${line.size ? "" : String(line.value)}`;
}

function Line({ line, toggle, flat, onPick }: {
  line: JsonLine;
  toggle: () => void;
  flat: boolean;
  onPick?: (path: string, value: unknown) => void;
}) {
  const fold = line.kind === "object" || line.kind === "array";
  return (
    <div class="json-line" style={{ "--depth": flat ? 0 : line.depth }}>
      {fold && line.size > 0 && !flat ? (
        <button
          type="button"
          class="json-fold"
          aria-expanded={line.open}
          aria-label={String(line.key ?? "value")}
          onClick={toggle}
        >
          {line.open ? "▾" : "▸"}
        </button>
      ) : (
        <span class="json-fold" />
      )}
      {line.key !== null && <span class="json-key">{keyText(flat ? line.path : line.key)}</span>}
      <Value line={line} />
      {onPick && !fold && line.kind !== "redacted" && (
        <button type="button" class="link json-pick" onClick={() => onPick(line.path, line.value)}>
          use
        </button>
      )}
      {line.path && (
        <span class="json-copy">
          <Copy text={line.path} what="path" />
        </span>
      )}
    </div>
  );
}

function keyText(key: string | number): string {
  const text = visible(String(key));
  return text.length > CUT ? `${text.slice(0, CUT)}…` : text;
}

function Value({ line }: { line: JsonLine }) {
  const [whole, setWhole] = useState(false);
  switch (line.kind) {
    case "object":
      return <span class="dim">{line.size ? (line.open ? "" : `{ ${count(line.size)} }`) : "{}"}</span>;
    case "array":
      return <span class="dim">{line.size ? `[ ${count(line.size)} ]` : "[]"}</span>;
    case "redacted":
      return <RedactedChip needs={(line.value as { redacted: string }).redacted} />;
    case "string": {
      const text = String(line.value);
      const cut = !whole && text.length > CUT;
      return (
        <span class="json-string">
          "<bdi>{visible(cut ? text.slice(0, CUT) : text)}</bdi>"
          {cut && (
            <button type="button" class="link" onClick={() => setWhole(true)}>
              {count(text.length - CUT)} more
            </button>
          )}
          {/^https:\/\//.test(text) && text.length < 2000 && <Outside url={text} />}
        </span>
      );
    }
    default:
      return <span class={`json-${line.kind}`}>{String(line.value ?? "null")}</span>;
  }
}

/** A link to elsewhere: the first click shows the host, the second one goes there. */
function Outside({ url }: { url: string }) {
  const [asked, setAsked] = useState(false);
  let host = "";
  try {
    host = new URL(url).host;
  } catch {
    return null;
  }
  if (!asked)
    return (
      <button type="button" class="link json-pick" onClick={() => setAsked(true)}>
        open
      </button>
    );
  return (
    <OutsideLink to={url}>go to {visible(host)}</OutsideLink>
  );
}

/** A payload that was read as text: its tree, or its beginning when it is too large for one. */
export function ReadPayload({ of, ...props }: Omit<JsonProps, "value"> & { of: ReadJson }) {
  if (!of.large) return <Json value={of.value} {...props} />;
  return <LargeText text={of.beginning} size={of.size} {...(props.download ? { download: props.download } : {})} />;
}

function LargeText({ text, size, download }: { text: string; size: number; download?: string }) {
  return (
    <div class="json">
      <p class="notice">
        {bytes(size)} are too much for a tree. The first {bytes(Math.min(PREVIEW, size))} are shown.{" "}
        {download && (
          <Download to={download}>Download the whole</Download>
        )}
      </p>
      <pre class="code-box" tabIndex={0}>{visible(text.slice(0, PREVIEW))}</pre>
    </div>
  );
}
