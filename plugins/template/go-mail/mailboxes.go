// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// mailboxDoc is the JSON document of a shared mailbox.
type mailboxDoc struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Address  string    `json:"address"`
	Username string    `json:"username"`
	Alias    string    `json:"alias"`
	Enabled  bool      `json:"enabled"`
	Created  time.Time `json:"created"`
}

func (d mailboxDoc) mailbox() (sdk.Mailbox, error) {
	if d.ID == "" || d.Address == "" {
		return sdk.Mailbox{}, sdk.BrokenAnswer("no_mailbox")
	}
	return sdk.Mailbox{
		ObjectID: d.ID, DisplayName: d.Name, Address: d.Address, PrincipalName: d.Username, Alias: d.Alias,
		AccountEnabled: d.Enabled, CreatedAt: d.Created,
	}, nil
}

// Mailboxes implements sdk.MailTenant.
func (t mailTenant) Mailboxes(ctx context.Context) ([]sdk.Mailbox, error) {
	var list struct {
		Mailboxes []mailboxDoc `json:"mailboxes"`
	}
	if err := t.call(ctx, http.MethodGet, "/mailboxes", nil, &list); err != nil {
		return nil, err
	}
	if list.Mailboxes == nil {
		return nil, sdk.BrokenAnswer("no_mailboxes")
	}
	var mailboxes []sdk.Mailbox
	for _, d := range list.Mailboxes {
		m, err := d.mailbox()
		if err != nil {
			return nil, err
		}
		mailboxes = append(mailboxes, m)
	}
	return mailboxes, nil
}

// peopleDoc has the number of user mailboxes and the numbers of licences.
type peopleDoc struct {
	Users    *int `json:"users"`
	Licences struct {
		Paid  int `json:"paid"`
		Trial int `json:"trial"`
	} `json:"licences"`
}

func (t mailTenant) readPeople(ctx context.Context) (doc peopleDoc, err error) {
	if err := t.call(ctx, http.MethodGet, "/people", nil, &doc); err != nil {
		return peopleDoc{}, err
	}
	if doc.Users == nil {
		return peopleDoc{}, sdk.BrokenAnswer("no_users")
	}
	return doc, nil
}

// UserMailboxes implements sdk.MailTenant.
func (t mailTenant) UserMailboxes(ctx context.Context) (int, error) {
	doc, err := t.readPeople(ctx)
	if err != nil {
		return 0, err
	}
	return *doc.Users, nil
}

// EmailLicenses implements sdk.MailTenant.
func (t mailTenant) EmailLicenses(ctx context.Context) (sdk.Licenses, error) {
	doc, err := t.readPeople(ctx)
	return sdk.Licenses{Paid: doc.Licences.Paid, Trial: doc.Licences.Trial}, err
}

// Mailbox implements sdk.MailTenant.
func (t mailTenant) Mailbox(ctx context.Context, address string) (sdk.Mailbox, error) {
	return t.requestMailbox(ctx, http.MethodGet, "/"+url.PathEscape(address), nil)
}

// CreateMailbox implements sdk.MailTenant.
func (t mailTenant) CreateMailbox(ctx context.Context, m sdk.MailboxSpec) (sdk.Mailbox, error) {
	return t.requestMailbox(ctx, http.MethodPost, "", map[string]string{"name": m.DisplayName, "address": m.Address})
}

// Rename implements sdk.MailTenant.
func (t mailTenant) Rename(ctx context.Context, address, displayName string) error {
	_, err := t.requestMailbox(ctx, http.MethodPatch, "/"+url.PathEscape(address), map[string]string{"name": displayName})
	return err
}

func (t mailTenant) requestMailbox(ctx context.Context, method, path string, in any) (sdk.Mailbox, error) {
	var doc mailboxDoc
	if err := t.call(ctx, method, "/mailboxes"+path, in, &doc); err != nil {
		return sdk.Mailbox{}, err
	}
	return doc.mailbox()
}

// OpenSignIn implements sdk.MailTenant.
func (t mailTenant) OpenSignIn(ctx context.Context, objectID, address string, password sdk.Secret) error {
	body := map[string]string{"username": address, "password": password.Reveal()}
	return t.call(ctx, http.MethodPut, "/accounts/"+url.PathEscape(objectID), body, &struct{}{})
}

// OpenSubmission implements sdk.MailTenant.
func (t mailTenant) OpenSubmission(ctx context.Context, address string) error {
	return t.call(ctx, http.MethodPut, "/mailboxes/"+url.PathEscape(address)+"/submission", nil, &struct{}{})
}

// RemoveMailbox implements sdk.MailTenant. The platform deletes the mailbox with its account.
func (t mailTenant) RemoveMailbox(ctx context.Context, objectID string) error {
	return t.remove(ctx, "/accounts/"+url.PathEscape(objectID), "no_mailbox")
}
