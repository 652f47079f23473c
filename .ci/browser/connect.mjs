// SPDX-License-Identifier: Apache-2.0
// The pages that connect a tenant, by keyboard alone.
import { narrow, open, wide } from './look.mjs';

export async function connectPages(browser, task, look, findings) {
  const walks = [
    // bypassCSP lets axe in where the policy forbids every script.
    { name: 'connect', decision: 'connect', options: { viewport: narrow, bypassCSP: true }, scripted: true },
    { name: 'plain', decision: 'connect', options: { viewport: narrow, javaScriptEnabled: false }, scripted: false },
    { name: 'cancel', decision: 'cancel', options: { viewport: narrow, bypassCSP: true, colorScheme: 'dark' }, scripted: true },
    { name: 'wide', decision: 'cancel', options: { viewport: wide, bypassCSP: true }, scripted: true },
  ];
  for (const [i, walk] of walks.entries()) {
    const page = await open(browser, walk.options);
    await walkThrough(page, task.walks[i], walk, look, findings);
    await refusals(page, task, walk, look);
    await page.context().close();
  }
}

async function walkThrough(page, { link, username, back }, walk, look, findings) {
  await page.goto(link);
  await page.fill('[name=username]', username);
  await press(page, findings, 'decision', 'accept');
  await page.waitForURL(/authorize/);
  await page.fill('[name=username]', username);
  await page.focus('[name=username]');
  await page.keyboard.press('Enter');
  await page.waitForURL(/connect\/microsoft365\/signin/);
  await ours(page, `${walk.name}-confirm`, walk, look, findings);
  await press(page, findings, 'decision', walk.decision);
  await page.waitForURL(/connect\/microsoft365\/confirm/);
  await ours(page, `${walk.name}-${walk.decision === 'connect' ? 'connected' : 'cancelled'}`, walk, look, findings);
  if (back) await leadsBack(page, back, findings);
}

// leadsBack follows the link of the last page by keyboard to the caller's page,
// which is answered here: its host does not exist.
async function leadsBack(page, { url, parameters }, findings) {
  let referrer = null;
  await page.route(`${url}*`, (route) => {
    referrer = route.request().headers().referer ?? '';
    return route.fulfill({ contentType: 'text/html', body: '<!doctype html><title>Back</title>' });
  });
  await pressOn(page, findings, (at) => at.href?.startsWith(url), `the link to ${url}`);
  await page.waitForURL(`${url}*`);
  const got = [...new URL(page.url()).searchParams].sort();
  const want = Object.entries(parameters).sort();
  if (JSON.stringify(got) !== JSON.stringify(want)) findings.push(`leads back with ${JSON.stringify(got)}, not ${JSON.stringify(want)}`);
  if (referrer !== '') findings.push(`leads back with the referrer ${referrer}`);
}

// ours looks at a page of the service and makes sure that it needs no script.
async function ours(page, name, walk, look, findings) {
  if (await page.evaluate(() => document.scripts.length) > 0) findings.push(`${name}: it has scripts`);
  if (!(await page.textContent('h1'))) findings.push(`${name}: it has no heading`);
  await look(page, name, walk.scripted);
}

async function refusals(page, task, walk, look) {
  for (const [name, path] of [
    ['refused-link', '/connect/microsoft365/callback?state=forged'],
    ['refused-page', '/connect/microsoft365/nothing'],
  ]) {
    await page.goto(task.api + path);
    await look(page, `${walk.name}-${name}`, walk.scripted);
  }
}

// press presses a button of a form.
function press(page, findings, name, value) {
  return pressOn(page, findings, (at) => at.name === name && at.value === value, `${name}=${value}`);
}

// pressOn reaches a control by Tab alone, sees that the focus shows, and presses
// Enter on it.
async function pressOn(page, findings, wanted, what) {
  for (let i = 0; i < 30; i++) {
    await page.keyboard.press('Tab');
    const at = await page.evaluate(() => {
      const e = document.activeElement;
      return { name: e?.getAttribute('name'), value: e?.getAttribute('value'), href: e?.href, outline: e && getComputedStyle(e).outlineStyle };
    });
    if (wanted(at)) {
      if (at.outline === 'none') findings.push(`${page.url()}: the focus on ${what} does not show`);
      await Promise.all([page.waitForEvent('framenavigated'), page.keyboard.press('Enter')]);
      return;
    }
  }
  throw new Error(`no way by keyboard to ${what} on ${page.url()}`);
}
