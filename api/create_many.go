package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/store/applied"
)

// createMany answers POST /jobs/create with several jobs. It creates all of them or none, unless the client prefers a
// result for each position. Then it creates all jobs that are valid.
func (s *creation) createMany(c echo.Context, body []byte, items command.EachItem, of *command.OpenBatch) error {
	b := command.Bulk{Each: web.PrefersEach(c.Request()), Trace: command.TraceOf(c), Of: of, Headers: c.Request().Header}
	if of != nil {
		b.Cmd.Into = of.Id
	}
	return s.createBulk(c, &b, body, items)
}

// createBulk answers a create of the items of a body.
func (s *creation) createBulk(c echo.Context, b *command.Bulk, body []byte, items command.EachItem) error {
	err := b.AddAll(s.decode, body, items)
	if err != nil {
		return err
	}
	if b.Each {
		c.Response().Header().Set("Preference-Applied", "results=each")
	}
	var made applied.Made
	var receipt ingest.Receipt
	if b.Cmd.Submission != nil && len(b.Ends) == 0 {
		if b.Cmd.Groups, err = s.decode.GroupOfNone(b.Of); err != nil {
			return err
		}
	}
	if cmd := b.Command(); len(b.Ends) > 0 || cmd.Submission != nil {
		if cmd.Once, err = web.Once(c, "create", cmd.Groups[0].Client, body); err != nil {
			return err
		}
		if made, receipt, err = s.engine.Create(c.Request().Context(), cmd); err != nil {
			return err
		}
		web.SetSeq(c, receipt.Seq)
		web.SetReplayed(c, made.Replayed)
	}
	return answerMany(c, b, &made)
}

func answerMany(c echo.Context, b *command.Bulk, made *applied.Made) error {
	text, err := web.EncodeDocument(b.Document(made))
	if err != nil {
		return err
	}
	return web.Answer(c, http.StatusCreated, web.MIMEBatch, text)
}

// createRuns answers POST /jobs/create with a body in runs. It creates all jobs or none.
func (s *creation) createRuns(c echo.Context, body []byte, of *command.OpenBatch) error {
	cmd, err := s.decode.CreationInRuns(body, command.TraceOf(c), of)
	if err != nil {
		return err
	}
	if of != nil {
		if cmd.Joined {
			return web.BadRequest("batch", "jobs that are added to a batch must not say that they belong to none")
		}
		cmd.Into = of.Id
	}
	if cmd.Once, err = web.Once(c, command.CreateKind, cmd.Groups[0].Client, body); err == nil {
		err = command.CheckJoined(cmd)
	}
	if err != nil {
		return err
	}
	groups := cmd.Groups
	made, receipt, err := s.engine.Create(c.Request().Context(), cmd)
	if err != nil {
		return err
	}
	web.SetSeq(c, receipt.Seq)
	web.SetReplayed(c, made.Replayed)
	return web.Answer(c, http.StatusCreated, web.MIMEBatch, append(command.AppendJobs(nil, &made, groups, receipt), '\n'))
}
