# Creates three jobs in Sidekiq: one in its queue, one in the set "schedule" and one in the set "retry".
require 'sidekiq'
require 'sidekiq/api'

class ResizeJob
  include Sidekiq::Job
  sidekiq_options queue: 'images', retry: 4

  def perform(file, width); end
end

ResizeJob.perform_async('fox.png', 80)
ResizeJob.perform_in(3600, 'dog.png', 80)
failed = {
  'class' => 'ResizeJob', 'args' => ['owl.png', 80], 'queue' => 'images', 'retry' => 4, 'jid' => 'b4a577edbccf1d805744efa9',
  'created_at' => Time.now.to_f, 'retry_count' => 0, 'error_class' => 'RuntimeError', 'error_message' => 'no width'
}
Sidekiq::RetrySet.new.schedule(Time.now + 7200, failed)
