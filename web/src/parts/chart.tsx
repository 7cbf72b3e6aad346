// Line charts over time, drawn by uPlot in the colours of the page.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { short } from "../format/amounts";
import { dark } from "./theme";

/** A line of a chart, with as many values as there are times. */
export interface Line {
  name: string;
  values: (number | null)[];
  /** Its meaning, which decides its colour and its dashes. */
  look: "main" | "peak" | "wait" | "promise" | "bound";
}

interface Props {
  /** Text alternative of the chart. */
  label: string;
  /** Times in seconds since the epoch. */
  times: number[];
}

const HEIGHT = 132;
/** Shortest time range of a chart, in seconds. */
const LEAST_SPAN = 900;

/** Colour and dashes of a line. */
const LOOKS: Record<Line["look"], { colour: string; width: number; dash?: number[] }> = {
  main: { colour: "--accent", width: 2 },
  peak: { colour: "--accent", width: 1, dash: [2, 3] },
  wait: { colour: "--wait", width: 2 },
  promise: { colour: "--good", width: 1, dash: [6, 3] },
  bound: { colour: "--quiet", width: 1, dash: [6, 3] },
};

/** A chart of one line. */
export function Chart({ values, name, ...of }: Props & { values: (number | null)[]; name: string }) {
  return <Lines {...of} lines={[{ name, values, look: "main" }]} />;
}

/** A chart of several lines over the same times. The first one is filled. */
export function Lines({ label, times, lines }: Props & { lines: Line[] }) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const isDark = dark.value;
  const looks = lines.map(({ name, look }) => `${look} ${name}`).join("|");
  const isSparse = times.length < 3;
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const style = getComputedStyle(element);
    const colour = (variable: string) => style.getPropertyValue(variable).trim();
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const series = lines.map(({ name, look }, at): uPlot.Series => {
      const { colour: stroke, width, dash } = LOOKS[look];
      return { label: name, stroke: colour(stroke), width, points: { show: isSparse }, ...(dash && { dash }), ...(at === 0 && { fill: colour("--wash") }) };
    });
    const options: uPlot.Options = {
      width: element.clientWidth || 300,
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, points: { size: 7 } },
      // A few minutes of data do not fill the whole width.
      scales: { x: { range: (_, least, most) => [Math.min(least, most - LEAST_SPAN), most] }, y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
      axes: [
        { ...axis, size: 28, values: (_, splits) => splits.map((at) => new Date(at * 1000).toTimeString().slice(0, 5)) },
        { ...axis, size: 44, values: (_, splits) => splits.map((value) => (Number.isInteger(value) ? short(value) : "")) },
      ],
      series: [{}, ...series],
      hooks: { setCursor: [(it) => tell(it, element)] },
    };
    plot.current = new uPlot(options, [times, ...lines.map((line) => line.values)], element);
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [isDark, looks, isSparse]);
  useEffect(() => plot.current?.setData([times, ...lines.map((line) => line.values)]), [times, lines]);
  return <div class="chart" ref={place} role="img" aria-label={label} />;
}

/** Shows the values under the pointer. */
function tell(plot: uPlot, element: HTMLElement): void {
  const at = plot.cursor.idx ?? -1;
  const time = plot.data[0][at];
  const values = plot.series.slice(1).flatMap(({ label }, line) => {
    const value = plot.data[line + 1]?.[at];
    return value == null ? [] : [plot.series.length > 2 ? `${label} ${short(value)}` : short(value)];
  });
  element.title = time === undefined || !values.length ? "" : `${new Date(time * 1000).toTimeString().slice(0, 5)}: ${values.join(", ")}`;
}

/** The last minute of a value, without axes. */
export function Spark({ label, values, window }: { label: string; values: number[]; window: number }) {
  const top = Math.max(...values, 1);
  const from = window - values.length;
  const points = values.map((value, at) => `${from + at},${(39 - 37 * (value / top)).toFixed(1)}`);
  return (
    <svg class="spark" viewBox={`0 0 ${window - 1} 40`} preserveAspectRatio="none" role="img" aria-label={label}>
      <polygon points={points.length ? `${from},40 ${points.join(" ")} ${window - 1},40` : ""} />
      <polyline points={points.join(" ")} />
    </svg>
  );
}
