// Short ids: ten characters instead of the 36 of a UUIDv7. They are the first 60 bits of an id, without those of its
// version, in Crockford's base32, without the leading `06` (from December 2030 `07`). The engine and the command line
// show the same ones and find by them. Pure.

const DIGITS = "0123456789abcdefghjkmnpqrstvwxyz";
const LENGTH = 12;
const UUID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

/** The short form of an id: ten characters, or twelve when it was not made between 2022 and 2039. Other text stays. */
export function shortId(id: string): string {
  if (!UUID.test(id)) return id;
  const digits = id.replaceAll("-", "").toLowerCase();
  const value = BigInt(`0x${digits.slice(0, 12)}${digits.slice(13, 16)}`);
  let text = "";
  for (let place = LENGTH - 1; place >= 0; place--) text += DIGITS[Number((value >> BigInt(5 * place)) & 31n)];
  return /^0[67]/.test(text) ? text.slice(2) : text;
}
