// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"

	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
)

// ruleStep is what an update does next with a rule: one write, or none if the rule is done.
type ruleStep int

const (
	stepDone           ruleStep = iota // nothing is left to do
	stepCreateDisabled                 // create the rule, disabled
	stepCreateEnabled
	stepDisable
	stepRemove
	stepSetSenders // write the senders, the managed settings and the priority
	stepEnable
)

// nextStep returns the next write for a rule with the state row. found is false if the rule does
// not exist.
type nextStep func(row ruleRow, found bool, senders []string) ruleStep

// ensureStep returns the next step to make a rule exist. A missing rule is created if there are
// senders. An existing rule is changed only if it is enabled and has no senders: such a rule can
// block all mail of the tenant, so it is disabled.
func ensureStep(row ruleRow, found bool, senders []string) ruleStep {
	switch {
	case found && row.isEnabled() && row.hasNoSenders():
		return stepDisable
	case found || len(senders) == 0:
		return stepDone
	default:
		return stepCreateDisabled
	}
}

// blockStep returns the next step to make a rule block exactly these senders. No step makes the
// rule block other senders. An existing rule is enabled only after its senders were read. An
// enabled rule without senders is disabled first. A rule that is not the first of the tenant is
// moved to the front once, because an earlier rule can keep it from acting.
func blockStep(row ruleRow, found bool, senders []string) ruleStep {
	switch {
	case !found && len(senders) == 0:
		return stepDone
	case !found:
		return stepCreateEnabled
	case row.isEnabled() && (len(senders) == 0 || row.hasNoSenders()):
		return stepDisable
	case len(senders) == 0:
		return stepDone
	case row.hasForeignParts():
		return stepRemove // a person has added parts to this rule, and only a new rule is without them
	case !slices.Equal(row.senders(), senders) || !row.hasManagedSettings() || row.Priority != 0:
		return stepSetSenders
	case !row.isEnabled():
		return stepEnable
	default:
		return stepDone
	}
}

// The text, the code and the comment of managed rules. The sender of a rejected message sees the
// text and the code.
const (
	rejectText    = "Daily sending limit reached for this mailbox. Sending resumes when the day turns."
	rejectCode    = "5.7.910"
	commentPrefix = "Made by tenantry, do not edit; scope="
)

func (u *ruleUpdate) write(ctx context.Context, step ruleStep) error {
	switch step {
	case stepCreateEnabled, stepCreateDisabled:
		return u.writeSenders(ctx, call.Create, exchange.NewTransportRule, map[string]any{
			"Name": u.name, "Enabled": step == stepCreateEnabled,
		})
	case stepSetSenders:
		return u.writeSenders(ctx, call.Repeatable, exchange.SetTransportRule, map[string]any{"Identity": u.name})
	case stepRemove:
		if err := u.removeRule(ctx, u.name); !exchange.Is(err, exchange.NotFound) {
			return err
		}
		return nil
	case stepDisable:
		return u.writeRule(ctx, call.Repeatable, exchange.DisableTransportRule, map[string]any{"Identity": u.name, "Confirm": false})
	case stepEnable:
		return u.writeRule(ctx, call.Repeatable, exchange.EnableTransportRule, map[string]any{"Identity": u.name, "Confirm": false})
	default:
		return nil
	}
}

// writeSenders is the only function that writes the senders of a rule. It refuses an empty list: a
// rule without senders has no condition, so it would block all mail of the tenant.
func (u *ruleUpdate) writeSenders(ctx context.Context, effect call.Effect, cmdlet string, parameters map[string]any) error {
	if len(u.senders) == 0 {
		return call.Broken("exchange", "rule_without_senders")
	}
	parameters["From"] = u.senders
	parameters["SenderAddressLocation"] = exchange.AnySender
	parameters["RejectMessageReasonText"], parameters["RejectMessageEnhancedStatusCode"] = rejectText, rejectCode
	parameters["Mode"], parameters["StopRuleProcessing"], parameters["Priority"] = exchange.Enforce, true, 0
	parameters["Comments"] = commentPrefix + u.scope
	err := u.writeRule(ctx, effect, cmdlet, parameters)
	u.placed = u.placed || err == nil
	return err
}

// removeRule removes a rule. It fails with exchange.NotFound if there is no such rule.
func (c *tenantClient) removeRule(ctx context.Context, name string) error {
	return c.writeRule(ctx, call.Repeatable, exchange.RemoveTransportRule, map[string]any{"Identity": name, "Confirm": false})
}

// writeRule sends a write without retries. The caller decides whether to send the write again.
func (c *tenantClient) writeRule(ctx context.Context, effect call.Effect, cmdlet string, parameters map[string]any) error {
	withoutRetries := c.exchange
	withoutRetries.Retry.MaxAttempts = 1
	_, err := exchange.Invoke[struct{}](ctx, withoutRetries, exchange.Command{Effect: effect, Cmdlet: cmdlet, Parameters: parameters})
	return err
}
