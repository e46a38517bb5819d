"""How are a model's requests made and sent, and answers read?"""
