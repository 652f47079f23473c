// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/plugins/proto"
)

func reachOut(r integration.Reach) *proto.SendingReach {
	return &proto.SendingReach{
		Roaming: r.Roaming,
		Workspaces: each(r.Workspaces, func(w integration.Workspace) *proto.SendingWorkspace {
			return &proto.SendingWorkspace{Id: w.ID, Name: w.Name}
		}),
	}
}

func reachIn(r *proto.SendingReach) integration.Reach {
	return integration.Reach{
		Roaming: r.GetRoaming(),
		Workspaces: each(r.GetWorkspaces(), func(w *proto.SendingWorkspace) integration.Workspace {
			return integration.Workspace{ID: clean(w.GetId()), Name: clean(w.GetName())}
		}),
	}
}

func accountOut(a integration.Account) *proto.SendingAccount {
	return &proto.SendingAccount{
		Id: a.ID, Address: a.Address, Name: a.Name, State: string(a.State), Paused: a.Paused,
		HasError: a.HasError, Reason: a.Reason, Stamp: a.Stamp,
	}
}

func accountIn(a *proto.SendingAccount) integration.Account {
	return integration.Account{
		ID: a.GetId(), Address: a.GetAddress(), Name: clean(a.GetName()), State: integration.AccountState(a.GetState()), Paused: a.GetPaused(),
		HasError: a.GetHasError(), Reason: clean(a.GetReason()), Stamp: a.GetStamp(),
	}
}

func pageOut(p integration.Page) *proto.SendingPage {
	return &proto.SendingPage{Accounts: each(p.Accounts, accountOut), Next: p.Next}
}

func pageIn(p *proto.SendingPage) integration.Page {
	return integration.Page{Accounts: each(p.GetAccounts(), accountIn), Next: p.GetNext()}
}

func sessionOut(s integration.SignIn) *proto.SendingSignIn {
	return &proto.SendingSignIn{Id: s.ID, Url: []byte(s.URL), ExpiresAt: timeOut(s.ExpiresAt)}
}

func sessionIn(s *proto.SendingSignIn) integration.SignIn {
	return integration.SignIn{ID: s.GetId(), URL: string(s.GetUrl()), ExpiresAt: timeIn(s.GetExpiresAt())}
}

func signInProgressOut(p integration.Progress) *proto.SendingProgress {
	return &proto.SendingProgress{State: string(p.State), Address: p.Address, Name: p.Name, Reason: p.Reason}
}

func signInProgressIn(p *proto.SendingProgress) integration.Progress {
	return integration.Progress{
		State: integration.SignInState(p.GetState()), Address: p.GetAddress(), Name: clean(p.GetName()), Reason: clean(p.GetReason()),
	}
}
