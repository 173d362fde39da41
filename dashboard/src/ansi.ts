// Splits text with ANSI colours into pieces. Other control sequences are left out; other control characters are shown.

export interface Piece {
  readonly text: string;
  /** A tone of the tokens, and "bold"; empty for plain text. */
  readonly classes: string;
}

const TONES: Readonly<Record<number, string>> = {
  31: "bad", 91: "bad", 32: "ok", 92: "ok", 33: "warn", 93: "warn", 34: "run", 94: "run", 35: "hold", 95: "hold",
  36: "run", 96: "run", 90: "off",
};

// CSI sequences, OSC sequences, and single escapes. The engine stores the escape character as the text \x1b.
const SEQUENCE = /(?:\u001b|\\x1b)(?:\[([\d;]*)([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

export function ansiPieces(text: string): readonly Piece[] {
  if (!/\u001b|\\x1b/.test(text)) return [{ text: shown(text), classes: "" }];
  const pieces: Piece[] = [];
  let tone = "";
  let bold = false;
  let from = 0;
  const push = (piece: string) => {
    const classes = [tone && `tone-${tone}`, bold && "bold"].filter(Boolean).join(" ");
    if (piece) pieces.push({ text: shown(piece), classes });
  };
  for (const match of text.matchAll(SEQUENCE)) {
    push(text.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] !== "m") continue;
    for (const code of (match[1] || "0").split(";").map(Number)) {
      if (code === 0) [tone, bold] = ["", false];
      else if (code === 1) bold = true;
      else if (code === 22) bold = false;
      else if (code === 39) tone = "";
      else tone = TONES[code] ?? tone;
    }
  }
  push(text.slice(from));
  return pieces;
}

function shown(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, (c) =>
    c === "\r" ? "" : `\\x${c.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
}
