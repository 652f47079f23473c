// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"

	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
)

// ruleStep is one write of a rule.
type ruleStep int

const (
	settled ruleStep = iota // nothing is to be done
	makeOff                 // make it, switched off
	makeOn
	disable
	remove
	list // set what it lists and does
	enable
)

// nextStep says what is to be done about a rule as it was read.
type nextStep func(row ruleRow, found bool, senders []string) ruleStep

// ensured only makes what is missing. A rule that somebody left without senders
// stops all mail of the tenant, and is switched off.
func ensured(row ruleRow, found bool, senders []string) ruleStep {
	switch {
	case found && row.on() && row.open():
		return disable
	case found || len(senders) == 0:
		return settled
	default:
		return makeOff
	}
}

// blocking makes a rule block exactly these senders. It never passes through a
// state in which the rule would stop others: a rule is switched on only after
// its list was read back, and one without a list is switched off first.
func blocking(row ruleRow, found bool, senders []string) ruleStep {
	switch {
	case !found && len(senders) == 0:
		return settled
	case !found:
		return makeOn
	case row.on() && (len(senders) == 0 || row.open()):
		return disable
	case len(senders) == 0:
		return settled
	case row.mixed():
		return remove // what others added to it, only a new rule is without
	case !slices.Equal(row.senders(), senders) || !row.ours():
		return list
	case !row.on():
		return enable
	default:
		return settled
	}
}

// What our rules do. Mail that they stop comes back to its sender with these.
const (
	rejectText = "Daily sending limit reached for this mailbox. Sending resumes when the day turns."
	rejectCode = "5.7.910"
	managed    = "Made by tenantry, do not edit; scope="
)

func (w *ruleWork) do(ctx context.Context, step ruleStep) error {
	switch step {
	case makeOn, makeOff:
		return w.writeList(ctx, call.Create, exchange.NewTransportRule, map[string]any{
			"Name": w.name, "Enabled": step == makeOn, "Priority": 0,
		})
	case list:
		return w.writeList(ctx, call.Repeatable, exchange.SetTransportRule, map[string]any{"Identity": w.name})
	case remove:
		return w.removeRule(ctx, w.name)
	case disable:
		return w.writeRule(ctx, call.Repeatable, exchange.DisableTransportRule, map[string]any{"Identity": w.name, "Confirm": false})
	case enable:
		return w.writeRule(ctx, call.Repeatable, exchange.EnableTransportRule, map[string]any{"Identity": w.name, "Confirm": false})
	default:
		return nil
	}
}

// writeList is the only place that sends a list of senders. Without any the
// condition would be gone, and the rule would stop all mail of the tenant.
func (w *ruleWork) writeList(ctx context.Context, effect call.Effect, cmdlet string, about map[string]any) error {
	if len(w.senders) == 0 {
		return call.Broken("exchange", "rule_without_senders")
	}
	about["From"] = w.senders
	about["SenderAddressLocation"] = exchange.AnySender
	about["RejectMessageReasonText"], about["RejectMessageEnhancedStatusCode"] = rejectText, rejectCode
	about["Mode"], about["StopRuleProcessing"] = exchange.Enforce, true
	about["Comments"] = managed + w.scope
	return w.writeRule(ctx, effect, cmdlet, about)
}

func (c *client) removeRule(ctx context.Context, name string) error {
	err := c.writeRule(ctx, call.Repeatable, exchange.RemoveTransportRule, map[string]any{"Identity": name, "Confirm": false})
	if exchange.Is(err, exchange.NotFound) {
		return nil
	}
	return err
}

// writeRule sends a write once: whether it is sent again is decided by a look.
func (c *client) writeRule(ctx context.Context, effect call.Effect, cmdlet string, parameters map[string]any) error {
	once := c.exchange
	once.Patience.Tries = 1
	_, err := exchange.Invoke[struct{}](ctx, once, exchange.Command{Effect: effect, Cmdlet: cmdlet, Parameters: parameters})
	return err
}
