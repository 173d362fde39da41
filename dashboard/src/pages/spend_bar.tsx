// What was used of a limit, as a text and a bar. Without a limit there is no bar.

export function Bar({ what, used, reserved = 0, limit, show, bare }: {
  what: string;
  used: number;
  reserved?: number;
  limit: number | null;
  show: (value: number) => string;
  /** Without the word that says what it is. */
  bare?: boolean;
}) {
  const taken = used + reserved;
  return (
    <span
      class="spend-bar"
      title={reserved > 0 ? `${show(reserved)} of it is reserved by calls that are sent` : undefined}
    >
      {!bare && <span class="dim">{what.toLowerCase()} </span>}
      {show(taken)}
      {limit !== null && <span class="dim"> of {show(limit)}</span>}
      {limit !== null && (
        <meter
          min={0}
          max={limit > 0 ? limit : 1}
          high={(limit > 0 ? limit : 1) * 0.8}
          value={limit > 0 ? Math.min(taken, limit) : 1}
          aria-label={`${what}: ${show(taken)} of ${show(limit)}`}
        />
      )}
    </span>
  );
}
