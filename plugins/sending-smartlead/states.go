// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// accountDoc is what is read of an account. Smartlead also sends its password in
// clear, for which there is no place here.
type accountDoc struct {
	ID        text `json:"id"`
	FromName  text `json:"from_name"`
	FromEmail text `json:"from_email"`
	Username  text `json:"username"`
	Type      text `json:"type"`
	SMTP      flag `json:"is_smtp_success"`
	IMAP      flag `json:"is_imap_success"`
	SMTPError said `json:"smtp_failure_error"`
	IMAPError said `json:"imap_failure_error"`
	Suspended flag `json:"is_suspended"`
	// Status is in a description that others wrote, not in Smartlead's.
	Status  text `json:"connection_status"`
	Updated text `json:"updated_at"`
}

func (d accountDoc) address() string {
	if strings.Contains(string(d.FromEmail), "@") {
		return string(d.FromEmail)
	}
	return string(d.Username)
}

func (d accountDoc) microsoft() bool { return strings.EqualFold(string(d.Type), "OUTLOOK") }

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

// state is the table of how Smartlead's words are ours, the first row that fits.
func (d accountDoc) state() (state sdk.AccountState, reason string) {
	status := strings.ToUpper(string(d.Status))
	switch {
	case !d.microsoft():
		return sdk.AccountOther, "" // somebody connected it by a password
	case status == "DISCONNECTED", status == "ERROR":
		return sdk.AccountFailed, "connection_error"
	case d.SMTP.on && d.IMAP.on:
		return sdk.AccountConnected, ""
	case d.SMTP.no() && d.IMAP.no() && !bool(d.SMTPError) && !bool(d.IMAPError):
		return sdk.AccountPending, "" // not tried yet
	case d.SMTP.no() && d.IMAP.no():
		return sdk.AccountFailed, "connection_error"
	case d.SMTP.no():
		return sdk.AccountFailed, "smtp_failure"
	case d.IMAP.no():
		return sdk.AccountFailed, "imap_failure"
	case status == "CONNECTED":
		return sdk.AccountConnected, ""
	default:
		return sdk.AccountPending, "" // one of them has not been tried
	}
}
