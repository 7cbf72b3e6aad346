// A strip of spans of time, a lane below the other, with marks of single moments.
import { clock, millis, moment, span } from "../format/times";
import { type Lane, type Mark, type Span, type Timeline, kindsOf } from "../format/timeline";
import { Says } from "./says";

/** Percentage of the strip at a time. */
const at = ({ from, to }: Timeline, time: number) => `${(100 * (time - from)) / (to - from)}%`;

export function Strip({ of }: { of: Timeline }) {
  return (
    <div class="timeline" role="group" aria-label="Timeline">
      {of.lanes.map((lane) => (
        <LaneRow key={lane.name} of={of} lane={lane} />
      ))}
      {of.marks.length > 0 && (
        <div class="lane marks">
          <span class="name">Decisions</span>
          <span class="track">
            {of.marks.map((mark) => (
              <i key={mark.id} class={mark.kind} style={{ left: at(of, mark.at) }} title={`${clock(mark.at)}: ${mark.text}`} data-count={mark.count} />
            ))}
          </span>
        </div>
      )}
      <div class="lane ends">
        <span class="name" />
        <span class="track">
          <time>{moment(of.from)}</time>
          <span>{span(millis(of.to - of.from))}</span>
          <time>{moment(of.to)}</time>
        </span>
      </div>
      <div class="lane ends">
        <span class="name" />
        <span class="kinds">
          {kindsOf(of.lanes).map(([kind, text]) => <span key={kind}><i class={`span ${kind}`} /> {text}</span>)}
        </span>
      </div>
    </div>
  );
}

function LaneRow({ of, lane }: { of: Timeline; lane: Lane }) {
  return (
    <div class="lane" data-lane={lane.name}>
      <span class="name">{lane.name}</span>
      <span class="track">
        {lane.spans.map((one) => (
          <i
            key={`${one.from} ${one.kind}`}
            class={`span ${one.kind}`}
            style={{ left: at(of, one.from), width: `calc(${at(of, of.from + one.to - one.from)} + 1px)` }}
            title={words(one)}
            data-kind={one.kind}
            data-from={one.from}
            data-to={one.to}
          />
        ))}
      </span>
    </div>
  );
}

const words = (one: Span) => `${one.text} for ${span(millis(one.to - one.from))}, from ${clock(one.from)}`;

/** The spans of a lane as a list, for readers who do not see the strip, or want times. */
export function Spans({ of }: { of: Span[] }) {
  return (
    <ol class="log spans">
      {of.map((one) => (
        <li key={`${one.from} ${one.kind}`}>
          <i class={`span ${one.kind}`} /> <time title={moment(one.from)}>{clock(one.from)}</time> {one.text} <span class="quiet">{span(millis(one.to - one.from))}</span>
        </li>
      ))}
    </ol>
  );
}

/** The marks as a list. */
export function Marks({ of }: { of: Mark[] }) {
  return (
    <ol class="log">
      {of.map((mark) => (
        <li key={mark.id}>
          <time title={moment(mark.at)}>{clock(mark.at)}</time> <Says text={mark.text} />
        </li>
      ))}
    </ol>
  );
}
