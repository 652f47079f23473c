// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// accountDoc is an account of the API, reduced to the members that the plugin reads. accountDoc
// must not have a field for the password of the account, which Smartlead sends in plain text.
type accountDoc struct {
	ID        text    `json:"id"`
	FromName  text    `json:"from_name"`
	FromEmail text    `json:"from_email"`
	Username  text    `json:"username"`
	Type      text    `json:"type"`
	SMTP      flag    `json:"is_smtp_success"`
	IMAP      flag    `json:"is_imap_success"`
	SMTPError present `json:"smtp_failure_error"`
	IMAPError present `json:"imap_failure_error"`
	Suspended flag    `json:"is_suspended"`
	// Status is documented only by third parties, not by Smartlead.
	Status  text `json:"connection_status"`
	Updated text `json:"updated_at"`
}

// address returns from_email, or the user name if from_email is not an address.
func (d accountDoc) address() string {
	if strings.Contains(string(d.FromEmail), "@") {
		return string(d.FromEmail)
	}
	return string(d.Username)
}

func (d accountDoc) isMicrosoft() bool { return strings.EqualFold(string(d.Type), "OUTLOOK") }

func (d accountDoc) account() sdk.Account {
	a := sdk.Account{
		ID: string(d.ID), Address: d.address(), Name: string(d.FromName),
		Stamp: fmt.Sprint(d.Updated, " ", d.SMTP, d.IMAP, d.Status),
	}
	a.State, a.Reason = d.state()
	a.HasError = a.Reason != ""
	a.Paused = a.State == sdk.AccountConnected && d.Suspended.on
	return a
}

// state returns the state of an account and, for a failed account, the reason.
func (d accountDoc) state() (state sdk.AccountState, reason string) {
	status := strings.ToUpper(string(d.Status))
	switch {
	case !d.isMicrosoft():
		return sdk.AccountOther, "" // not connected through Microsoft
	case status == "DISCONNECTED", status == "ERROR":
		return sdk.AccountFailed, "connection_error"
	case d.SMTP.on && d.IMAP.on:
		return sdk.AccountConnected, ""
	case d.SMTP.isFalse() && d.IMAP.isFalse() && !bool(d.SMTPError) && !bool(d.IMAPError):
		return sdk.AccountPending, "" // Smartlead has not tried to connect yet
	case d.SMTP.isFalse() && d.IMAP.isFalse():
		return sdk.AccountFailed, "connection_error"
	case d.SMTP.isFalse():
		return sdk.AccountFailed, "smtp_failure"
	case d.IMAP.isFalse():
		return sdk.AccountFailed, "imap_failure"
	case status == "CONNECTED":
		return sdk.AccountConnected, ""
	default:
		return sdk.AccountPending, "" // Smartlead has not tried both protocols yet
	}
}
