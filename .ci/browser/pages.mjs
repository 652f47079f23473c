// SPDX-License-Identifier: Apache-2.0
// Walks the connect pages in headless Chromium as an administrator would:
// by keyboard alone, without JavaScript, on a narrow screen, and holds each
// page against axe. Usage: node pages.mjs CONNECT_URL USERNAME SHOTS_DIR
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';

const [connectURL, username, shots] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];
const findings = [];

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: flags });
// bypassCSP lets axe run on pages whose policy forbids every script; the pages
// themselves run with JavaScript off below.
const context = await browser.newContext({ viewport: { width: 320, height: 640 }, bypassCSP: true, javaScriptEnabled: true });
const page = await context.newPage();

async function look(name) {
  await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  if (wide > 320) findings.push(`${name}: ${wide} pixels wide on a screen of 320`);
  const scripts = await page.evaluate(() => document.scripts.length);
  if (scripts > 0) findings.push(`${name}: ${scripts} scripts`);
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  for (const v of violations) findings.push(`${name}: axe ${v.id}: ${v.help} (${v.nodes.map((n) => n.target).join(', ')})`);
}

// press reaches a control by Tab alone and presses Enter on it.
async function press(name, value) {
  for (let i = 0; i < 30; i++) {
    await page.keyboard.press('Tab');
    const at = await page.evaluate(() => [document.activeElement?.getAttribute('name'), document.activeElement?.getAttribute('value')]);
    if (at[0] === name && (value === undefined || at[1] === value)) {
      await Promise.all([page.waitForLoadState('load'), page.keyboard.press('Enter')]);
      return;
    }
  }
  findings.push(`no way by keyboard to ${name}=${value} on ${page.url()}`);
}

await page.goto(connectURL);
await page.fill('[name=username]', username);
await press('decision', 'accept');
await page.waitForURL(/authorize/);
await page.fill('[name=username]', username);
await page.focus('[name=username]');
await page.keyboard.press('Enter');
await page.waitForURL(/connect\/microsoft365\/signin/);
await look('confirm');
await press('decision', 'connect');
await page.waitForURL(/connect\/microsoft365\/confirm/);
await look('connected');
await page.goto(new URL('/connect/microsoft365/callback?state=forged', page.url()).href);
await look('refused');
await browser.close();

// The same pages once more with JavaScript off: they must show and submit.
const plain = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: flags });
const off = await (await plain.newContext({ javaScriptEnabled: false, viewport: { width: 320, height: 640 } })).newPage();
await off.goto(new URL('/connect/microsoft365/signin?code=x&state=y', page.url()).href);
if (!(await off.textContent('h1'))) findings.push('refused: empty without JavaScript');
await plain.close();

if (findings.length > 0) {
  console.error(findings.join('\n'));
  process.exit(1);
}
console.log('no findings');
