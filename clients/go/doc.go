// Package monoceros is a client of the scheduler for resource managers (RMs).
//
// An RM tells which nodes it has, which applications, and what they ask for, and hears where to run
// it. What it says is numbered and kept until the scheduler has taken it; what it hears is
// acknowledged. So a broken connection loses nothing and doubles nothing, and when the scheduler
// itself was restarted the client registers anew and tells everything again, which it asks of the
// program ([Config.State]). The program sees neither.
//
//	client, err := monoceros.New(monoceros.Config{
//		Target: "127.0.0.1:50051", RM: "cluster-1", State: state, Handler: handler,
//	})
//	go client.Nodes(ctx, node)
//	err = client.Run(ctx)
//
// # What is where
//
// client.go has the settings and the loop that connects again; session.go one session's streams;
// outbox.go what waits to be said, and its numbers; inbox.go what was heard; state.go how
// everything is told again; callbacks.go the questions of the scheduler; verdict.go what the end of
// a stream means. The packages below hold the stubs, which a program may use by themselves.
package monoceros
