// Line charts over time, drawn by uPlot in the colours of the page.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { short } from "../format/amounts";
import { dark } from "./theme";

interface Props {
  /** Text alternative of the chart. */
  label: string;
  /** Times in seconds since the epoch. */
  times: number[];
  values: (number | null)[];
  name: string;
}

const HEIGHT = 132;
/** Shortest time range of a chart, in seconds. */
const LEAST_SPAN = 900;

export function Chart({ label, times, values, name }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const isDark = dark.value;
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const style = getComputedStyle(element);
    const colour = (variable: string) => style.getPropertyValue(variable).trim();
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
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
      series: [
        {},
        { label: name, stroke: colour("--accent"), width: 2, fill: colour("--wash"), points: { show: times.length < 3 } },
      ],
      hooks: { setCursor: [(it) => tell(it, element)] },
    };
    plot.current = new uPlot(options, [times, values], element);
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [isDark, name, times.length < 3]);
  useEffect(() => plot.current?.setData([times, values]), [times, values]);
  return <div class="chart" ref={place} role="img" aria-label={label} />;
}

/** Shows the values under the pointer. */
function tell(plot: uPlot, element: HTMLElement): void {
  const at = plot.cursor.idx;
  const [time, value] = [plot.data[0][at ?? -1], plot.data[1]?.[at ?? -1]];
  element.title = time === undefined || value == null ? "" : `${new Date(time * 1000).toTimeString().slice(0, 5)}: ${short(value)}`;
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
