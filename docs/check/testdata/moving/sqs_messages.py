"""Creates three messages in SQS, one of them delayed. If a move fails, SQS delivers a message again after a second."""

import boto3

sqs = boto3.client("sqs")
url = sqs.create_queue(QueueName="photos", Attributes={"VisibilityTimeout": "1"})["QueueUrl"]
sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": name, "MessageBody": f"{name}.png"} for name in ("cat", "dog")])
sqs.send_message(QueueUrl=url, MessageBody="later.png", DelaySeconds=3)
