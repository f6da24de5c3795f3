import assert from "node:assert/strict";
import { test } from "node:test";
import { growth, parse, quantile, sum } from "../src/metrics/prometheus";

const FIRST = `# HELP x
a_total{code="x",how="1"} 2.0
a_total{code="y"} 3
t_bucket{le="0.1"} 10
t_bucket{le="1.0"} 10
t_bucket{le="+Inf"} 10
gauge 2.5e+06
`;
const THEN = FIRST.replace("} 2.0", "} 7.0")
  .replace('le="0.1"} 10', 'le="0.1"} 60')
  .replace('le="1.0"} 10', 'le="1.0"} 110')
  .replace('"+Inf"} 10', '"+Inf"} 110');

test("sums go over labels, and nobody's metric is null", () => {
  const sample = parse(FIRST, 0);
  assert.equal(sum(sample, "a_total"), 5);
  assert.equal(sum(sample, "a_total", 'code="x"'), 2);
  assert.equal(sum(sample, "gauge"), 2_500_000);
  assert.equal(sum(sample, "a"), null);
});

test("a counter that begins anew has grown by what it says", () => {
  assert.equal(growth(parse(FIRST, 0), parse(THEN, 1), "a_total"), 5);
  assert.equal(growth(parse(THEN, 0), parse(FIRST, 1), "a_total"), 5);
});

test("percentiles are of what happened in between", () => {
  const before = parse(FIRST, 0);
  const now = parse(THEN, 1);
  assert.equal(quantile(0.5, before, now, "t"), 0.1);
  assert.ok(Math.abs((quantile(0.75, before, now, "t") as number) - 0.55) < 1e-9);
  assert.equal(quantile(0.5, now, now, "t"), null);
});
