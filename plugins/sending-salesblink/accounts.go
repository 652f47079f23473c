// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// decodeSenders decodes a list of senders. The data is a list of senders or folders, an object that
// contains this list, or an object with a list of senders for each folder. For any other form,
// decodeSenders fails with Broken. It skips no sender, because the host would then take the sender
// for removed.
func decodeSenders(data json.RawMessage) ([]sdk.Account, error) {
	var list []json.RawMessage
	var object members
	switch {
	case json.Unmarshal(data, &list) == nil && list != nil:
		return flatten(list)
	case json.Unmarshal(data, &object) != nil || object == nil:
		return nil, sdk.BrokenAnswer("no_senders")
	}
	if list, ok := object.list(senderLists); ok {
		return flatten(list)
	}
	var accounts []sdk.Account
	for _, folder := range slices.Sorted(maps.Keys(object)) {
		list, ok := object.list([]string{folder})
		if !ok {
			return nil, sdk.BrokenAnswer("no_senders")
		}
		inFolder, err := flatten(list)
		if err != nil {
			return nil, err
		}
		accounts = append(accounts, inFolder...)
	}
	return accounts, nil
}

// flatten decodes a list of senders, or of folders with senders.
func flatten(list []json.RawMessage) ([]sdk.Account, error) {
	var accounts []sdk.Account
	for _, raw := range list {
		var object members
		if json.Unmarshal(raw, &object) != nil {
			return nil, sdk.BrokenAnswer("unexpected_sender")
		}
		if inner, ok := object.list(senderLists); ok {
			inFolder, err := flatten(inner)
			if err != nil {
				return nil, err
			}
			accounts = append(accounts, inFolder...)
			continue
		}
		sender := toAccount(object)
		if sender.ID == "" || !strings.Contains(sender.Address, "@") {
			return nil, sdk.BrokenAnswer("sender_without_address")
		}
		accounts = append(accounts, sender)
	}
	return accounts, nil
}

// toAccount converts a sender to sdk.Account. If one of the members in failureNames has a value,
// the account has failed, whatever its status is.
func toAccount(object members) sdk.Account {
	status := strings.ToLower(object.text(statusNames))
	state, known := statuses[status]
	sender := sdk.Account{ID: object.text(idNames), Address: object.text(addressNames), Name: object.text(nameNames), State: state.state, Paused: state.paused}
	if !known {
		sender.State, sender.Reason = sdk.AccountOther, "unknown_status"
	}
	if object.hasValue(failureNames) {
		sender.State, sender.Paused = sdk.AccountFailed, false
	}
	if sender.State == sdk.AccountFailed {
		sender.HasError, sender.Reason = true, "connection_error"
	}
	sender.Stamp = object.text(changeNames) + " " + status + " " + string(sender.State)
	return sender
}
