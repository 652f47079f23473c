// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// senders decodes a list of senders. The list is flat, or grouped by folders, or an object with a
// list for each folder. For any other form, senders fails with Broken. If it omitted senders, the
// host would report them as removed.
func senders(data json.RawMessage) ([]sdk.Account, error) {
	var list []json.RawMessage
	var object members
	switch {
	case json.Unmarshal(data, &list) == nil && list != nil:
		return flatten(list)
	case json.Unmarshal(data, &object) != nil || object == nil:
		return nil, sdk.BrokenAnswer("no_senders")
	}
	if list, ok := object.list(groupNames); ok {
		return flatten(list)
	}
	var all []sdk.Account
	for _, folder := range slices.Sorted(maps.Keys(object)) {
		list, ok := object.list([]string{folder})
		if !ok {
			return nil, sdk.BrokenAnswer("no_senders")
		}
		inFolder, err := flatten(list)
		if err != nil {
			return nil, err
		}
		all = append(all, inFolder...)
	}
	return all, nil
}

// flatten decodes a list of senders or of groups of senders.
func flatten(list []json.RawMessage) ([]sdk.Account, error) {
	var all []sdk.Account
	for _, raw := range list {
		var object members
		if json.Unmarshal(raw, &object) != nil {
			return nil, sdk.BrokenAnswer("sender_of_another_shape")
		}
		if inner, ok := object.list(groupNames); ok {
			inFolder, err := flatten(inner)
			if err != nil {
				return nil, err
			}
			all = append(all, inFolder...)
			continue
		}
		a := account(object)
		if a.ID == "" || !strings.Contains(a.Address, "@") {
			return nil, sdk.BrokenAnswer("sender_without_address")
		}
		all = append(all, a)
	}
	return all, nil
}

// account converts a sender to sdk.Account. If one of the members in failureNames has a value, the
// account has failed, whatever its status is.
func account(m members) sdk.Account {
	status := strings.ToLower(m.text(statusNames))
	s, known := statuses[status]
	sender := sdk.Account{ID: m.text(idNames), Address: m.text(addressNames), Name: m.text(nameNames), State: s.state, Paused: s.paused}
	if !known {
		sender.State, sender.Reason = sdk.AccountOther, "unknown_status"
	}
	if m.hasValue(failureNames) {
		sender.State, sender.Paused = sdk.AccountFailed, false
	}
	if sender.State == sdk.AccountFailed {
		sender.HasError, sender.Reason = true, "connection_error"
	}
	sender.Stamp = m.text(changeNames) + " " + status + " " + string(sender.State)
	return sender
}
