// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"net/http"
)

// demoLimit is the number of messages that a mailbox may send in a day.
const demoLimit = 20

// enforceLimits sets a send limit and makes a mailbox exceed it. It shows that the mailbox is
// blocked, and that it is unblocked on the next day.
func (w *walkthrough) enforceLimits(ctx context.Context) error {
	w.beginStep("Limit how many messages each mailbox may send in a day")
	policy, err := w.callOK(ctx, http.MethodPost, w.tenantPath("/mailbox-limits"), object{"daily_send_limit": demoLimit, "domain_scope": demoDomain})
	if err != nil {
		return err
	}
	rule, _ := policy["provisioning"].(map[string]any)
	w.printLine("%s has a new mail flow rule, switched off until a mailbox exceeds its limit: %v", w.ready.MailPlatform, rule["rule_name"])
	w.beginStep("A mailbox exceeds its limit and is blocked")
	if err := w.controlSandbox(ctx, fmt.Sprintf("ada@%s sends %d messages", demoDomain, demoLimit+1), "/messages",
		object{"mailbox": "ada@" + demoDomain, "count": demoLimit + 1}); err != nil {
		return err
	}
	if err := w.runEnforcement(ctx, "blocked"); err != nil {
		return err
	}
	w.beginStep("The next day the mailbox is unblocked")
	if err := w.controlSandbox(ctx, "the clock of the sandbox moves on by 24 hours", "/clock", object{"advance": "24h"}); err != nil {
		return err
	}
	return w.runEnforcement(ctx, "unblocked")
}

// runEnforcement runs an enforcement pass. It prints the event of the action, which is "blocked" or
// "unblocked", and the mailboxes that the mail flow rules block afterwards. It fails when there is
// not exactly one such event, or when a rule is disabled after "blocked" or enabled after
// "unblocked".
func (w *walkthrough) runEnforcement(ctx context.Context, action string) error {
	if err := w.controlSandbox(ctx, "the service counts the messages and updates the rule", "/enforcement/run", nil); err != nil {
		return err
	}
	listed, err := w.callOK(ctx, http.MethodGet, "/v1/enforcement/events?action="+action, nil)
	if err != nil {
		return err
	}
	events := listed.objects("events")
	if len(events) != 1 {
		return fmt.Errorf("there are %d enforcement events with the action %s, want 1", len(events), action)
	}
	w.printLine("%s: %s", events[0].text("mailbox_address"), events[0].text("message"))
	tenantState, status, err := sendRequest(ctx, http.MethodGet, w.ready.ControlURL+"/tenants/"+w.ready.Tenants[0].TenantID, "", nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("the sandbox answered %d: %v", status, tenantState)
	}
	for _, rule := range tenantState.objects("rules") {
		w.printLine("at %s: %s, enabled %v, blocks %v", w.ready.MailPlatform, rule.text("name"), rule["enabled"], rule["blocks"])
		if rule["enabled"] != (action == "blocked") {
			return fmt.Errorf("after the action %s, the field enabled of the rule is wrong: %v", action, rule)
		}
	}
	return nil
}
