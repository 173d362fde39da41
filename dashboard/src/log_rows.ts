// Rows of a log: each of one height, so that only those that are seen are drawn. Pure.

import { ansiPieces, type Piece } from "./ansi.ts";
import { visible } from "./format.ts";
import type { Gap } from "./log_lines.ts";
import { isRedacted, type LogLine } from "./rows.ts";

/** Characters of a line that are drawn; the copy has all of them. */
const CUT = 2000;
/** Lines of one entry beyond which it is folded. */
const FOLDED_BEYOND = 3;
const TAB = 8;

export interface TextRow {
  readonly kind: "text";
  readonly line: LogLine;
  readonly pieces: readonly Piece[];
  /** Number of further lines of the same entry that are folded away. */
  readonly folded: number;
  /** False for what continues the entry of the row before. */
  readonly first: boolean;
  readonly id: string;
}

export interface GapRow {
  readonly kind: "gap";
  readonly gap: Gap;
}

export type LogRow = TextRow | GapRow;

/** The rows of one entry. With `columns` a line that is longer goes on in further rows, as on a terminal. */
export function entryRows(line: LogLine, open: boolean, columns: number | null): readonly TextRow[] {
  const id = `${line.fence}.${line.seq}`;
  if (isRedacted(line.text)) return [{ kind: "text", line, pieces: [], folded: 0, first: true, id }];
  const parts = line.text.replace(/\n$/, "").split("\n");
  const folds = parts.length > FOLDED_BEYOND && !open;
  const rows: TextRow[] = [];
  for (const part of folds ? parts.slice(0, 1) : parts)
    for (const pieces of wrapped(piecesOf(part), columns))
      rows.push({ kind: "text", line, pieces, folded: 0, first: rows.length === 0, id });
  const last = rows.at(-1);
  if (folds && last) rows[rows.length - 1] = { ...last, folded: parts.length - 1 };
  return rows;
}

function piecesOf(text: string): readonly Piece[] {
  const cut = text.length > CUT ? `${text.slice(0, CUT)}…` : text;
  return ansiPieces(cut).map((piece) => ({ ...piece, text: visible(piece.text) }));
}

/** Pieces in rows of so many columns. A piece keeps its colours in each row. */
export function wrapped(pieces: readonly Piece[], columns: number | null): readonly (readonly Piece[])[] {
  if (columns === null || columns < 1) return [pieces];
  const rows: Piece[][] = [[]];
  let used = 0;
  for (const piece of pieces) {
    let from = 0;
    let at = 0;
    for (const character of piece.text) {
      const width = character === "\t" ? TAB - (used % TAB) : isWide(character) ? 2 : 1;
      if (used > 0 && used + width > columns) {
        if (at > from) rows.at(-1)?.push({ ...piece, text: piece.text.slice(from, at) });
        rows.push([]);
        from = at;
        used = 0;
      }
      used += width;
      at += character.length;
    }
    if (at > from) rows.at(-1)?.push({ ...piece, text: piece.text.slice(from, at) });
  }
  return rows;
}

// East Asian scripts and pictures take two columns of a monospaced line.
function isWide(character: string): boolean {
  return /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/.test(character)
    || (character.codePointAt(0) ?? 0) >= 0x1f300;
}
