"""Grapevine from Spark, in pure Python: `df.writeStream.format("grapevine")`.

`grapevine.spark.session` makes a session with everything in place. Needs the extra:
`pip install 'grapevine-pubsub[spark]'`.
"""
