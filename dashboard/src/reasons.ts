// Why matches are suppressed, in words, and what to do about each.

export interface Reason {
  /** What happened. */
  readonly what: string;
  /** What to do when the match should have run. */
  readonly remedy: string;
}

const reason = (what: string, remedy: string): Reason => ({ what, remedy });

/** The reasons of a firing that was suppressed (`docs/reference/triggers.md`), guards first. */
export const REASONS: Readonly<Record<string, Reason>> = {
  own_event: reason(
    "the trigger's own execution caused the event",
    "If that is meant, set the guard allow_self of the trigger.",
  ),
  cycle: reason(
    "the trigger is in the event's chain already",
    "If that is meant, raise its guard max_revisits, or acknowledge_cycle.",
  ),
  depth: reason("the chain is too long", "If that is meant, raise the guard max_depth."),
  budget: reason("the tree has as many executions as it may", "Raise the budget on the page of the tree."),
  rate: reason("the trigger fires too often for this subject", "Pause the trigger, or raise its guard rate."),
  source_rate: reason("too many events of this source", "Raise the guard rate, or slow the source down."),
  repeat_rate: reason("the same content came too often", "Make the sender send each message once."),
  breaker_open: reason("the trigger exceeded its rate repeatedly", "End the loop, then resume the trigger."),
  trigger_paused: reason("the trigger is paused", "Resume the trigger."),
  function_unavailable: reason("the function is missing or disabled", "Activate it, or change the trigger."),
  input_error: reason("the input does not fit the function", "Correct the input template of the trigger."),
  condition_error: reason("the condition failed", "Correct the condition of the trigger."),
  shadow: reason("the trigger is in shadow mode", "Promote the trigger."),
  idempotent: reason("its key has run already", "Nothing: it ran once."),
  rate_limited: reason("beyond the rate limit", "Raise the rate limit, or use a throttle."),
  singleton: reason("an execution of the same key is open", "Wait until it has ended."),
  overlap: reason("the execution before it still ran", "Make it shorter, or choose another overlap policy."),
  debounced: reason("a later event ran in its place", "Nothing, or a debounce that keeps all events."),
  unmatched: reason("the other events did not come in time", "Give them more time."),
  late: reason("the event came too late", "Raise the allowance of the trigger."),
  awaited: reason("the awaited event came", "Nothing."),
  cancelled: reason("another event cancelled it while it waited", "Nothing."),
  undone: reason("the execution that caused the event was undone", "Run that execution again."),
  trigger_deleted: reason("the trigger was deleted while it waited", "Nothing."),
  trigger_changed: reason("the trigger's new version does not match", "Nothing."),
};

/** The reasons as choices of a filter. */
export const REASON_CHOICES = Object.keys(REASONS).map((value) => ({ value, label: value.replaceAll("_", " ") }));
