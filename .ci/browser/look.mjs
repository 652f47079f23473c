// SPDX-License-Identifier: Apache-2.0
// The checks that are the same for every page.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export const narrow = { width: 320, height: 640 };
export const wide = { width: 1100, height: 800 };

// stepTimeout is so long that only a step that hangs exceeds it, even on a busy machine.
const stepTimeout = 10 * 60_000;

export function launch() {
  return chromium.launch({
    timeout: stepTimeout,
    executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync'],
  });
}

// open returns a page in a new browser context.
export async function open(browser, options) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(stepTimeout);
  return context.newPage();
}

// newCheck returns the function look(page, name, scripted). It checks the width of a page
// and, if scripts can run, runs axe. If shots is set, it saves a picture of the page in
// that folder, which takes most of the time.
export function newCheck(shots, findings) {
  return async (page, name, scripted = true) => {
    if (shots) await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
    const [width, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
    if (width > screen) findings.push(`${name}: ${width} pixels wide on a screen of ${screen}`);
    if (!scripted) return;
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
    for (const v of violations) {
      findings.push(`${name}: axe ${v.id}: ${v.help} (${v.nodes.map((n) => n.target).join(', ')})`);
    }
  };
}
