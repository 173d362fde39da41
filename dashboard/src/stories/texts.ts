// Texts that every part has to bear.

export const LONG_WORD = "a_name_without_a_place_to_break_it_".repeat(9);
export const SCRIPT = `<script>window.attacked=1</script><img src=x onerror="window.attacked=1">'"-->`;
export const RIGHT_TO_LEFT = "فاتورة رقم ٤٧ من חברה בע״מ";
export const HIDDEN = "invoice\u202etxt.exe\u2066\u200b";
export const EMOJI = "👩‍👩‍👧‍👦 🏳️‍🌈 🧑🏽‍🚀 𝕴𝖓𝖛𝖔𝖎𝖈𝖊 請求書";
export const LINES = "the first line\nthe second one\twith a tab\r\nthe third one";
export const PROSE = "The order has three positions, and one of them has no price. ".repeat(200);
/** The largest integer of 64 bits. A number of the page holds it only nearly. */
export const LARGEST = 2 ** 63;

/** Each of them by its kind. */
export const HOSTILE: Readonly<Record<string, string>> = {
  "long word": LONG_WORD,
  script: SCRIPT,
  "right to left": RIGHT_TO_LEFT,
  hidden: HIDDEN,
  emoji: EMOJI,
  lines: LINES,
};

/** A fixed time, so many seconds after noon. */
export const at = (seconds: number) => new Date(Date.UTC(2026, 0, 31, 12) + seconds * 1000).toISOString();
export const ID = "01999999-0000-7000-8000-000000000000";
