// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenantry/tenantry/plugins/proto"
)

func descriptionOut(d Description) *proto.Description {
	out := &proto.Description{
		Name:         d.Name,
		Kind:         string(d.Kind),
		Version:      d.Version,
		Title:        d.Title,
		Capabilities: d.Capabilities,
		NameServers:  d.NameServers,
		FaultDomain:  d.FaultDomain,
	}
	if len(d.Needs) > 0 {
		out.Needs = make(map[string]*proto.FieldNames, len(d.Needs))
	}
	for capability, names := range d.Needs {
		out.Needs[capability] = &proto.FieldNames{Names: names}
	}
	for _, f := range d.Fields {
		out.Fields = append(out.Fields, &proto.Field{Name: f.Name, Secret: f.Secret, Required: f.Required, Default: f.Default, Help: f.Help, Account: f.Account})
	}
	for _, b := range d.Budgets {
		out.Budgets = append(out.Budgets, &proto.Budget{
			Key: b.Key, Limit: int64(b.Limit), Window: durationpb.New(b.Window), Costs: numbers[int, int64](b.Costs), Only: b.Only,
		})
	}
	return out
}

func descriptionIn(d *proto.Description) Description {
	in := Description{
		Name:         d.GetName(),
		Kind:         Kind(d.GetKind()),
		Version:      d.GetVersion(),
		Title:        d.GetTitle(),
		Capabilities: d.GetCapabilities(),
		NameServers:  d.GetNameServers(),
		FaultDomain:  d.GetFaultDomain(),
	}
	if len(d.GetNeeds()) > 0 {
		in.Needs = make(map[string][]string, len(d.GetNeeds()))
	}
	for capability, fields := range d.GetNeeds() {
		in.Needs[capability] = fields.GetNames()
	}
	for _, f := range d.GetFields() {
		in.Fields = append(in.Fields, Field{Name: f.GetName(), Secret: f.GetSecret(), Required: f.GetRequired(), Default: f.GetDefault(), Help: f.GetHelp(), Account: f.GetAccount()})
	}
	for _, b := range d.GetBudgets() {
		in.Budgets = append(in.Budgets, Budget{
			Key: b.GetKey(), Limit: int(b.GetLimit()), Window: b.GetWindow().AsDuration(), Costs: numbers[int64, int](b.GetCosts()), Only: b.GetOnly(),
		})
	}
	return in
}

// timeOut and timeIn keep the zero time zero, which is not the epoch.
func timeOut(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func timeIn(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// each converts a list; an empty one stays nil.
func each[A, B any](list []A, convert func(A) B) []B {
	if len(list) == 0 {
		return nil
	}
	out := make([]B, len(list))
	for i, a := range list {
		out[i] = convert(a)
	}
	return out
}

// numbers turns the numbers of a map into another type of number; there is no
// map of none.
func numbers[F, T int | int64](from map[string]F) map[string]T {
	if len(from) == 0 {
		return nil
	}
	to := make(map[string]T, len(from))
	for name, n := range from {
		to[name] = T(n)
	}
	return to
}
