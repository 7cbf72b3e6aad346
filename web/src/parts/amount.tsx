// Amounts, counts and times, each with its exact value beside the formatted one.
import { amount, byWeight, hours, share, short, title } from "../format/amounts";
import { moment, millis, now, span } from "../format/times";
import type { Resources } from "../rest/types";

/** A count. */
export function Count({ of }: { of: number | undefined }) {
  const count = of ?? 0;
  return <data value={String(count)}>{short(count)}</data>;
}

/** One amount. */
export function Amount({ name, of }: { name: string; of: number | undefined }) {
  const quantity = of ?? 0;
  return <data value={String(quantity)}>{amount(name, quantity)}</data>;
}

/** Some amounts in one line; a dash where there are none. */
export function Amounts({ of }: { of: Resources | undefined }) {
  const shown = Object.entries(of ?? {}).filter(([, quantity]) => quantity);
  if (!shown.length) return <span class="quiet">–</span>;
  shown.sort(([a], [b]) => byWeight(a, b));
  return (
    <span class="amounts">
      {shown.map(([name, quantity]) => (
        <span key={name}>
          <Amount name={name} of={quantity} />
          {name === "memory" ? "" : ` ${name === "vcore" && quantity === 1000 ? "core" : title(name)}`}
        </span>
      ))}
    </span>
  );
}

/** Amounts times hours, from amounts times seconds. */
export function Hours({ of }: { of: Resources | undefined }) {
  const shown = Object.entries(of ?? {}).filter(([, quantity]) => quantity);
  shown.sort(([a], [b]) => byWeight(a, b));
  return (
    <span class="amounts">
      {shown.map(([name, seconds]) => (
        <span key={name}>
          <data value={String(seconds)} title={`${seconds.toLocaleString("en")} ${name}-seconds`}>{hours(name, seconds)}</data>
        </span>
      ))}
    </span>
  );
}

/** A number of things, with the plural of their name. */
export function Things({ of, name }: { of: number; name: string }) {
  return <><Count of={of} /> {of === 1 ? name : `${name}s`}</>;
}

/** Time since or until a moment, with the moment as a title. */
export function Ago({ at }: { at: number | undefined }) {
  if (!at) return <span class="quiet">–</span>;
  const since = now.value - millis(at);
  const text = since < -1500 ? `in ${span(-since)}` : span(since);
  return (
    <time dateTime={new Date(millis(at)).toISOString()} title={moment(at)} data-nanos={at}>
      {text}
    </time>
  );
}

interface Levels {
  used?: number;
  wait?: number;
  promise?: number;
  limit?: number;
}

/** Usage against a limit, with pending and guaranteed amounts. A mark at the end shows that more is pending than fits. */
export function Bar({ label, used = 0, wait = 0, promise = 0, limit = 0 }: { label: string } & Levels) {
  const filled = share(used, limit);
  const waiting = Math.min(share(wait, limit || wait), 100 - filled);
  const isFull = limit > 0 && used >= limit;
  const isBeyond = limit > 0 && used + wait > limit;
  return (
    <div
      class="bar"
      role="meter"
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(filled)}
      aria-label={label}
      title={label}
    >
      <i class={isFull ? "used full" : "used"} style={{ width: `${filled}%` }} />
      {waiting > 0 && <i class="wait" style={{ left: `${filled}%`, width: `${waiting}%` }} />}
      {isBeyond && <i class="beyond" />}
      {promise > 0 && <i class="promise" style={{ left: `calc(${share(promise, limit)}% - 2px)` }} />}
    </div>
  );
}

/** A bar with its figures below. Without a limit, the bar is full at `whole`. */
export function Level(props: { who: string; name: string; whole?: number } & Levels) {
  const { who, name, used = 0, wait = 0, promise = 0, limit, whole = 0 } = props;
  const say = (quantity: number) => amount(name, quantity);
  const parts = [limit === undefined ? `${say(used)}, no limit` : `${say(used)} of ${say(limit)}`];
  if (wait) parts.push(`${say(wait)} waiting`);
  if (promise) parts.push(`${say(promise)} guaranteed`);
  return (
    <div class="level" data-resource={name} data-used={used} data-limit={limit} data-wait={wait} data-promise={promise}>
      <Bar label={`${who} ${title(name)}: ${parts.join(" · ")}`} used={used} wait={wait} promise={promise} limit={limit ?? whole} />
      <div class="figures">
        <span>{parts[0]}</span>
        {wait > 0 && <span class="waits">{say(wait)} waiting</span>}
        {promise > 0 && <span>{say(promise)} guaranteed</span>}
      </div>
    </div>
  );
}

